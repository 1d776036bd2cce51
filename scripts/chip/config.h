// What the emulated chip has beside MicroPython's own port for it: a clock, a file system, ROMFS,
// asyncio and an interrupt from the serial port, as boards have them.

#include <mpconfigport.h>

#undef MICROPY_PY_SYS_PLATFORM
#undef MICROPY_PY_SYS_STDIO_BUFFER
#undef MICROPY_PY_SELECT
#undef MICROPY_PY_TIME
#undef MICROPY_PY_ASYNCIO
#undef MICROPY_VFS_ROM_IOCTL
#undef MICROPY_PY_MACHINE_INCLUDEFILE

#define MICROPY_PY_SYS_PLATFORM "mps2"
#define MICROPY_PY_SYS_STDIO_BUFFER (1)
#define MICROPY_PY_SELECT (1)
#define MICROPY_PY_ASYNCIO (1)
#define MICROPY_PY_TIME (1)
#define MICROPY_PY_TIME_GMTIME_LOCALTIME_MKTIME (1)
#define MICROPY_PY_TIME_TIME_TIME_NS (1)
#define MICROPY_PY_TIME_INCLUDEFILE "time_clock.c"
#define MICROPY_PY_OS_INCLUDEFILE "os_random.c"
#define MICROPY_PY_OS_URANDOM (1)
#define MICROPY_PY_OS_SYNC (1)
#define MICROPY_PY_OS_UNAME (1)
#define MICROPY_PY_MACHINE_INCLUDEFILE "machine_reset.c"
#define MICROPY_VFS_ROM_IOCTL (1)
#define MICROPY_FATFS_ENABLE_LFN (2)
#define MICROPY_FATFS_RPATH (2)
#define MICROPY_FATFS_MAX_SS (4096)

// As the rp2 port has them, whose stack is the smallest of the boards'.
#define MICROPY_ALLOC_PATH_MAX (128)
#define MICROPY_QSTR_BYTES_IN_HASH (1)
#define MICROPY_STACK_CHECK_MARGIN (256)
#define MICROPY_OPT_COMPUTED_GOTO (1)
#define MICROPY_SCHEDULER_DEPTH (8)

#define MICROPY_PY_RANDOM_SEED_INIT_FUNC (chip_random())
#define MICROPY_INTERNAL_WFE(timeout_ms) chip_wait()

unsigned int chip_random(void);
void chip_wait(void);
