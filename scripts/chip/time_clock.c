// The wall clock for MicroPython's module time, which includes this file.

#include "py/obj.h"
#include "shared/timeutils/timeutils.h"

uint32_t chip_unix_time(void);

static mp_uint_t seconds(void) {
    return chip_unix_time() - TIMEUTILS_SECONDS_1970_TO_2000;
}

static mp_obj_t mp_time_localtime_get(void) {
    timeutils_struct_time_t tm;
    timeutils_seconds_since_epoch_to_struct_time(seconds(), &tm);
    const uint16_t parts[] = {
        tm.tm_year, tm.tm_mon, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, tm.tm_wday, tm.tm_yday,
    };
    mp_obj_t items[MP_ARRAY_SIZE(parts)];
    for (size_t i = 0; i < MP_ARRAY_SIZE(parts); i++) {
        items[i] = MP_OBJ_NEW_SMALL_INT(parts[i]);
    }
    return mp_obj_new_tuple(MP_ARRAY_SIZE(parts), items);
}

static mp_obj_t mp_time_time_get(void) {
    return mp_obj_new_int_from_uint(seconds());
}
