/*-------------------------------------------------------------------------
 *
 * columns.h
 *	  Columns of the extension's tables, in the order of CREATE TABLE.
 *
 * Portions Copyright (c) 2026, the voucher authors
 *
 * IDENTIFICATION
 *	  voucher/src/columns.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef VOUCHER_COLUMNS_H
#define VOUCHER_COLUMNS_H

/* Columns of table voucher */
enum
{
	Anum_voucher_code = 1,
	Anum_voucher_discount_amount,
	Anum_voucher_discount_percent,
	Anum_voucher_max_discount_amount,
	Anum_voucher_min_order_amount,
	Anum_voucher_total_limit,
	Anum_voucher_used_count,
	Anum_voucher_flash_quota,
	Anum_voucher_flash,
	Anum_voucher_per_user_limit,
	Anum_voucher_hold_time,
	Anum_voucher_starts_at,
	Anum_voucher_ends_at,
	Anum_voucher_enabled,
	Anum_voucher_created_at,
	Anum_voucher_purged_count
};

/* Columns of table voucher_slot */
enum
{
	Anum_slot_voucher_code = 1,
	Anum_slot_no
};

/* Columns of table voucher_redemption */
enum
{
	Anum_redemption_id = 1,
	Anum_redemption_voucher_code,
	Anum_redemption_customer_id,
	Anum_redemption_order_id,
	Anum_redemption_status,
	Anum_redemption_order_amount,
	Anum_redemption_discount_amount,
	Anum_redemption_use_no,
	Anum_redemption_slot_no,
	Anum_redemption_created_at,
	Anum_redemption_expires_at,
	Anum_redemption_confirmed_at,
	Anum_redemption_released_at,
	Anum_redemption_release_reason
};

#endif							/* VOUCHER_COLUMNS_H */
