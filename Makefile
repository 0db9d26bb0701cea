.DEFAULT_GOAL := help
include integration/tools/tools.mk
