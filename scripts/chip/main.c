// MicroPython on an emulated Cortex-M3, started and reset as a board's is.
//
// Memory of the board MPS2 AN385: the program at 0, ROMFS at 0x200000, 2 MB that stand for flash at
// 0x20000000, and the heap at 0x21000000. The stack is at the end of the 4 MB from 0. The emulator
// writes the sizes of the heap and the stack to OPTIONS before the start.

#include <stdlib.h>
#include <string.h>

#include "py/compile.h"
#include "py/cstack.h"
#include "py/gc.h"
#include "py/mphal.h"
#include "py/mperrno.h"
#include "py/runtime.h"
#include "py/stream.h"
#include "shared/readline/readline.h"
#include "shared/runtime/gchelper.h"
#include "shared/runtime/interrupt_char.h"
#include "shared/runtime/pyexec.h"
#include "extmod/vfs.h"

#define ROMFS ((uint8_t *)0x00200000)
#define ROMFS_BYTES (0x200000 - 0x20000)
#define HEAP ((uint8_t *)0x21000000)
#define OPTIONS ((volatile uint32_t *)0x21fff000)
#define PAINT (0x5a5a5a5a)
#define PAINTED (0x10000)

#define WORD(address) (*(volatile uint32_t *)(address))
#define UART_DATA WORD(0x40004000)
#define UART_STATE WORD(0x40004004)
#define UART_CTRL WORD(0x40004008)
#define UART_INTERRUPTS WORD(0x4000400c)
#define TIMER_LOAD WORD(0x40002000)
#define TIMER_VALUE WORD(0x40002004)
#define TIMER_CTRL WORD(0x40002008)
#define SYSTICK_CTRL WORD(0xe000e010)
#define SYSTICK_LOAD WORD(0xe000e014)
#define NVIC_ENABLE WORD(0xe000e100)
#define VECTORS WORD(0xe000ed08)

#define UART_RX_FULL (1 << 1)
#define UART_TX_FULL (1 << 0)
#define UART_RX_INTERRUPT (1 << 3)
#define TYPED_BYTES (1024)

extern uint32_t _estack;
extern const uint32_t isr_vector[];

static uint32_t vectors[32] __attribute__((aligned(256)));
static volatile uint8_t typed[TYPED_BYTES];
static volatile uint32_t typed_in, typed_out;
static uint32_t timer_high, timer_last;

// What is typed is taken from the serial port at once, so that a Ctrl-C interrupts a program. Where
// there is no room for more, the port waits.
static void on_serial(void) {
    UART_INTERRUPTS = 2;
    while (UART_STATE & UART_RX_FULL) {
        if (typed_in - typed_out == TYPED_BYTES) {
            UART_CTRL &= ~UART_RX_INTERRUPT;
            break;
        }
        uint8_t c = UART_DATA;
        if (c == mp_interrupt_char) {
            mp_sched_keyboard_interrupt();
        } else {
            typed[typed_in++ % TYPED_BYTES] = c;
        }
    }
}

// The port interrupts for what comes from now on, so what came before is taken first.
static void listen(void) {
    __asm volatile ("cpsid i" ::: "memory");
    UART_CTRL |= UART_RX_INTERRUPT;
    on_serial();
    __asm volatile ("cpsie i" ::: "memory");
}

static void on_tick(void) {
}

static void start_interrupts(void) {
    memcpy(vectors, isr_vector, 16 * sizeof(uint32_t));
    vectors[15] = (uint32_t)on_tick;
    vectors[16] = vectors[17] = (uint32_t)on_serial;
    VECTORS = (uint32_t)vectors;
    TIMER_LOAD = 0xffffffff;
    TIMER_CTRL = 0xca; // periodic, 32 bits, a step is 256 cycles of 25 MHz
    SYSTICK_LOAD = 25000 * 5;
    SYSTICK_CTRL = 7;
    NVIC_ENABLE = 3;
    listen();
}

// Suspends the chip until something is typed, or for at most five milliseconds.
void chip_wait(void) {
    __asm volatile ("wfi");
}

static uint64_t microseconds(void) {
    uint32_t now = ~TIMER_VALUE;
    if (now < timer_last) {
        timer_high++;
    }
    timer_last = now;
    return (((uint64_t)timer_high << 32) | now) * 256 / 25;
}

mp_uint_t mp_hal_ticks_us(void) {
    return microseconds();
}

mp_uint_t mp_hal_ticks_cpu(void) {
    return microseconds();
}

mp_uint_t mp_hal_ticks_ms(void) {
    return microseconds() / 1000;
}

void mp_hal_delay_us(mp_uint_t us) {
    uint64_t end = microseconds() + us;
    while (microseconds() < end) {
    }
}

void mp_hal_delay_ms(mp_uint_t ms) {
    uint64_t end = microseconds() + (uint64_t)ms * 1000;
    do {
        mp_event_wait_ms(1);
    } while (microseconds() < end);
}

// The date of the machine that runs the emulator, asked for by a call that the emulator answers.
uint32_t chip_unix_time(void) {
    register uint32_t operation __asm("r0") = 0x11;
    register uint32_t argument __asm("r1") = 0;
    __asm volatile ("bkpt 0xab" : "+r" (operation) : "r" (argument) : "memory");
    return operation;
}

uint64_t mp_hal_time_ns(void) {
    return chip_unix_time() * 1000000000ULL;
}

unsigned int chip_random(void) {
    static uint32_t state;
    if (state == 0) {
        state = chip_unix_time() ^ TIMER_VALUE ^ OPTIONS[2];
    }
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

uint32_t get_fattime(void) {
    return ((2000 - 1980) << 25) | (1 << 21) | (1 << 16);
}

uintptr_t mp_hal_stdio_poll(uintptr_t flags) {
    uintptr_t ready = flags & MP_STREAM_POLL_WR;
    if (typed_in != typed_out) {
        ready |= flags & MP_STREAM_POLL_RD;
    }
    return ready;
}

int mp_hal_stdin_rx_chr(void) {
    while (typed_in == typed_out) {
        mp_event_wait_indefinite();
    }
    int c = typed[typed_out++ % TYPED_BYTES];
    listen();
    return c;
}

mp_uint_t mp_hal_stdout_tx_strn(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        while (UART_STATE & UART_TX_FULL) {
        }
        UART_DATA = text[i];
    }
    return length;
}

mp_obj_t mp_vfs_rom_ioctl(size_t n_args, const mp_obj_t *args) {
    mp_int_t operation = mp_obj_get_int(args[0]);
    if (operation == MP_VFS_ROM_IOCTL_GET_NUMBER_OF_SEGMENTS) {
        return MP_OBJ_NEW_SMALL_INT(1);
    }
    if (n_args < 2 || mp_obj_get_int(args[1]) != 0) {
        return MP_OBJ_NEW_SMALL_INT(-MP_EINVAL);
    }
    if (operation == MP_VFS_ROM_IOCTL_GET_SEGMENT) {
        return mp_obj_new_memoryview('B', ROMFS_BYTES, ROMFS);
    }
    if (operation == MP_VFS_ROM_IOCTL_WRITE_PREPARE && mp_obj_get_int(args[2]) <= ROMFS_BYTES) {
        memset(ROMFS, 0xff, mp_obj_get_int(args[2]));
        return MP_OBJ_NEW_SMALL_INT(4); // what is written comes in multiples of this
    }
    if (operation == MP_VFS_ROM_IOCTL_WRITE) {
        mp_buffer_info_t data;
        mp_get_buffer_raise(args[3], &data, MP_BUFFER_READ);
        memcpy(ROMFS + mp_obj_get_int(args[2]), data.buf, data.len);
        return MP_OBJ_NEW_SMALL_INT(0);
    }
    if (operation == MP_VFS_ROM_IOCTL_WRITE_COMPLETE) {
        return MP_OBJ_NEW_SMALL_INT(0);
    }
    return MP_OBJ_NEW_SMALL_INT(-MP_EINVAL);
}

// `chip.stack_paint()` marks the stack that is free, `chip.stack_used()` then returns how many bytes
// were the most in use, `chip.stack_limit(bytes)` sets where MicroPython refuses to nest deeper.

static mp_obj_t stack_paint(void) {
    uint32_t here;
    for (uint32_t *word = &_estack - PAINTED / 4; word < &here; word++) {
        *(volatile uint32_t *)word = PAINT;
    }
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_0(stack_paint_obj, stack_paint);

static mp_obj_t stack_used(void) {
    uint32_t *word = &_estack - PAINTED / 4;
    while (*(volatile uint32_t *)word == PAINT) {
        word++;
    }
    return mp_obj_new_int((&_estack - word) * 4);
}
static MP_DEFINE_CONST_FUN_OBJ_0(stack_used_obj, stack_used);

static mp_obj_t stack_limit(mp_obj_t bytes) {
    MP_STATE_THREAD(stack_limit) = mp_obj_get_int(bytes);
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_1(stack_limit_obj, stack_limit);

static const mp_rom_map_elem_t chip_globals_table[] = {
    { MP_ROM_QSTR(MP_QSTR___name__), MP_ROM_QSTR(MP_QSTR_chip) },
    { MP_ROM_QSTR(MP_QSTR_stack_paint), MP_ROM_PTR(&stack_paint_obj) },
    { MP_ROM_QSTR(MP_QSTR_stack_used), MP_ROM_PTR(&stack_used_obj) },
    { MP_ROM_QSTR(MP_QSTR_stack_limit), MP_ROM_PTR(&stack_limit_obj) },
};
static MP_DEFINE_CONST_DICT(chip_globals, chip_globals_table);

const mp_obj_module_t chip_module = {
    .base = { &mp_type_module },
    .globals = (mp_obj_dict_t *)&chip_globals,
};
MP_REGISTER_MODULE(MP_QSTR_chip, chip_module);

static void run_programs(void) {
    int ended = pyexec_file_if_exists("boot.py");
    if (!(ended & PYEXEC_FORCED_EXIT) && ended != 0 && pyexec_mode_kind == PYEXEC_MODE_FRIENDLY_REPL) {
        ended = pyexec_file_if_exists("main.py");
    }
    while (!(ended & PYEXEC_FORCED_EXIT)) {
        ended = pyexec_mode_kind == PYEXEC_MODE_RAW_REPL ? pyexec_raw_repl() : pyexec_friendly_repl();
    }
}

int main(int argc, char **argv) {
    start_interrupts();
    uint32_t heap = OPTIONS[0] ? OPTIONS[0] : 192 * 1024;
    uint32_t stack = OPTIONS[1] ? OPTIONS[1] : 32 * 1024;
    mp_cstack_init_with_top(&_estack, stack + MICROPY_STACK_CHECK_MARGIN);
    gc_init(HEAP, HEAP + heap);
    for (;;) {
        mp_init();
        MP_STATE_THREAD(stack_limit) = stack;
        mp_obj_list_append(mp_sys_path, mp_obj_new_str("/lib", 4));
        readline_init0();
        mp_vfs_mount_romfs_protected();
        pyexec_frozen_module("_boot.py", false);
        run_programs();
        mp_printf(&mp_plat_print, "MPY: soft reboot\n");
        gc_sweep_all();
        mp_deinit();
    }
}

void gc_collect(void) {
    gc_collect_start();
    gc_helper_collect_regs_and_stack();
    gc_collect_end();
}

void nlr_jump_fail(void *value) {
    mp_printf(&mp_plat_print, "FATAL: uncaught exception %p\n", value);
    exit(1);
}
