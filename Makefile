# voucher/Makefile

EXTENSION   = voucher
EXTVERSION := $(shell sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" $(dir $(lastword $(MAKEFILE_LIST)))voucher.control)
DATA        = voucher--1.0.sql

MODULE_big  = voucher
OBJS        = voucher.o $(addprefix src/,launcher.o visit.o expiry.o reconcile.o \
              incident.o admission.o capacity.o generate.o purge.o guard.o \
              terms.o store.o slots.o sql.o owner.o rows.o tally.o scan.o schedule.o input.o guc.o)
INCS        = $(patsubst %.o,%.h,$(filter src/%,$(OBJS))) src/columns.h src/compat.h
PGFILEDESC  = "voucher - limited-use vouchers, never one use too many"

PG_CPPFLAGS = -I$(srcdir)/src -DVOUCHER_VERSION='"$(EXTVERSION)"'
PG_CFLAGS  += -Wextra -Wno-unused-parameter -Wno-sign-compare \
              -Wno-missing-field-initializers $(if $(WERROR),-Werror)

REGRESS        = init calls errors more_calls admin purge worker flash guards privileges hostile session readme drop
REGRESS_OPTS   = --encoding=UTF8
ISOLATION      = init reserve-reserve-order reserve-reserve-last \
                 reserve-reserve-customer reserve-release reserve-confirm \
                 confirm-release confirm-confirm release-release \
                 reserve-update reserve-delete reserve-lapsed confirm-lapsed \
                 reserve-reserve-rr reserve-reserve-ssi confirm-release-rr \
                 reserve-release-deadlock reserve-recheck settle-settle reserve-limit look-change \
                 generate purge expire flash-reserve flash-capacity drop
ISOLATION_OPTS = --inputdir=$(srcdir)/test
TAP_TESTS      = 1
PROVE_TESTS   ?= test/t/*.pl

# make installcheck TEMP_INSTANCE=no uses the server that PGHOST and its like name
TEMP_INSTANCE ?= yes
ifeq ($(TEMP_INSTANCE),yes)
REGRESS_OPTS   += --temp-instance=$(CURDIR)/tmp_check --temp-config=$(srcdir)/test/voucher.conf
ISOLATION_OPTS += --temp-instance=$(CURDIR)/tmp_check_iso --temp-config=$(srcdir)/test/voucher.conf
endif

# The one-command targets must work before there is a pg_config, and PGXS has
# a "check" of its own; so they come without it, and hand any other goal on.
ONE_COMMAND = check demo
ifneq ($(filter $(ONE_COMMAND),$(MAKECMDGOALS)),)

check:
	@test/check
demo:
	@bench/demo
$(filter-out $(ONE_COMMAND),$(MAKECMDGOALS)):
	$(MAKE) $@
.PHONY: $(MAKECMDGOALS)
.NOTPARALLEL:

else

PG_CONFIG ?= pg_config
PGXS      := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# PGXS tracks no headers
$(OBJS): $(INCS)

# a VPATH build needs src/ in the build directory
ifdef VPATH
$(OBJS) $(OBJS:.o=.bc): | vpath-dirs
.PHONY: vpath-dirs
vpath-dirs:
	$(MKDIR_P) src
endif

endif
