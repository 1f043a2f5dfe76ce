/* base/size.h -- sizes as people write them.
 *
 *     600  600B          bytes
 *     4K 600M 4G 2T      times 1024, 1024^2, ... up to E  (also 4Ki, 4KiB, 1.5GiB)
 *     4KB 600MB 4GB      times 1000, 1000^2, ...  (as on the box of a disk)
 *     40%                of a base that the caller gives
 *
 * Case and a blank before the unit do not matter.  Fractions are exact, then
 * rounded down to a byte.
 */
#ifndef ZI_BASE_SIZE_H
#define ZI_BASE_SIZE_H

#include <stddef.h>
#include <stdint.h>

#include "zico/status.h"

#define ZI_KIB ((uint64_t)1 << 10)
#define ZI_MIB ((uint64_t)1 << 20)
#define ZI_GIB ((uint64_t)1 << 30)

#define ZI_SIZE_TEXT 16 /* room that zi_size_format never exceeds */

/* ZICO_E_FORMAT: not a size.  ZICO_E_ARG: more than 64 bits hold, more than 100 %,
 * or a share where there is no base (base_bytes == 0). */
ZICO_NODISCARD zico_status zi_size_parse(const char *text, uint64_t base_bytes,
                                         uint64_t *ret_bytes);

/* "512 B", "4 GiB", "1.2 GiB": whole, or one decimal.  Returns `text`. */
const char *zi_size_format(uint64_t bytes, char text[ZI_SIZE_TEXT]);

#endif /* ZI_BASE_SIZE_H */
