/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  Every server version test of the extension.
 *
 * The code is written for the newest interface; what an older server lacks
 * is supplied here under the newest name.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/compat.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef VOUCHER_COMPAT_H
#define VOUCHER_COMPAT_H

#if PG_VERSION_NUM < 150000
#error "voucher needs PostgreSQL 15 or newer"
#endif

/* 16 moved the access to text and the like out of postgres.h */
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* 18 lets a library tell its name and version in pg_get_loaded_modules() */
#if PG_VERSION_NUM < 180000
#define PG_MODULE_MAGIC_EXT(...) PG_MODULE_MAGIC
#endif

/* 18 counts index searches, for EXPLAIN */
#if PG_VERSION_NUM < 180000
#include "access/genam.h"

#define index_beginscan(heap, index, snapshot, instrument, nkeys, norderbys) \
	index_beginscan(heap, index, snapshot, nkeys, norderbys)
#endif

/* 17 has a function that pins search_path; before, every caller does it */
#if PG_VERSION_NUM < 170000
#include "utils/guc.h"

static inline void
RestrictSearchPath(void)
{
	set_config_option("search_path", "pg_catalog, pg_temp",
					  PGC_USERSET, PGC_S_SESSION,
					  GUC_ACTION_SAVE, true, 0, false);
}
#endif

#endif							/* VOUCHER_COMPAT_H */
