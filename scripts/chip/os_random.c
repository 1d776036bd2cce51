// Random bytes for MicroPython's module os, which includes this file. They are not secret.

#include "py/runtime.h"

static mp_obj_t mp_os_urandom(mp_obj_t number) {
    vstr_t vstr;
    vstr_init_len(&vstr, mp_obj_get_int(number));
    for (size_t i = 0; i < vstr.len; i++) {
        vstr.buf[i] = chip_random();
    }
    return mp_obj_new_bytes_from_vstr(&vstr);
}
static MP_DEFINE_CONST_FUN_OBJ_1(mp_os_urandom_obj, mp_os_urandom);
