// The port's own parts of MicroPython's module machine, which includes this file.

#include <stdlib.h>

static void mp_machine_idle(void) {
    mp_event_wait_ms(1);
}

static void mp_machine_reset(void) {
    exit(0); // of the emulator
}

static mp_int_t mp_machine_reset_cause(void) {
    return 0;
}
