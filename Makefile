# voucher/Makefile

EXTENSION   = voucher
EXTVERSION := $(shell sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" $(dir $(lastword $(MAKEFILE_LIST)))voucher.control)
DATA        = voucher--1.0.sql

MODULE_big  = voucher
OBJS        = voucher.o $(addprefix src/,admission.o terms.o store.o input.o guc.o)
INCS        = $(addprefix src/,admission.h terms.h store.h input.h guc.h compat.h)
PGFILEDESC  = "voucher - limited-use vouchers, never one use too many"

PG_CPPFLAGS = -I$(srcdir)/src -DVOUCHER_VERSION='"$(EXTVERSION)"'
PG_CFLAGS  += -Wextra -Wno-unused-parameter -Wno-sign-compare \
              -Wno-missing-field-initializers $(if $(WERROR),-Werror)

PG_CONFIG ?= pg_config
PGXS      := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)
$(OBJS): $(INCS)
