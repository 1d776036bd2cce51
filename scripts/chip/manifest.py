include("$(MPY_DIR)/extmod/asyncio")
freeze("$(BOARD_DIR)", "_boot.py")
