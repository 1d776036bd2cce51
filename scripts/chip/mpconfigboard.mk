# A Cortex-M3 as a board of MicroPython's port for emulated machines: `make BOARD_DIR=...`.

QEMU_ARCH = arm
QEMU_MACHINE = mps2-an385
LDSCRIPT = $(BOARD_DIR)/chip.ld
FROZEN_MANIFEST = $(BOARD_DIR)/manifest.py
MICROPY_VFS_LFS2 = 1
MICROPY_VFS_FAT = 1

CFLAGS += -mthumb -mcpu=cortex-m3 -mfloat-abi=soft -DQEMU_SOC_MPS2 -I$(BOARD_DIR)
CFLAGS += -DMICROPY_HW_MCU_NAME='"Cortex-M3"' -DMP_CONFIGFILE='<config.h>'
MPY_CROSS_FLAGS += -march=armv7m

SRC_BOARD_O = shared/runtime/gchelper_native.o shared/runtime/gchelper_thumb2.o
SRC_BOARD_O += shared/timeutils/timeutils.o
