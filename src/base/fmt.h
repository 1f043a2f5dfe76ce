/* base/fmt.h -- a small printf that allocates nothing, takes no lock and knows no locale.
 *
 * For places where stdio must not be called: inside another program's malloc, in
 * a signal handler, after fork.  Understands %s %.Ns %.*s %c %d %i %u %x %p %f
 * %.Nf %% with l, ll, z and h, a width, and the flags - and 0.  Anything else is
 * copied as it stands and ends the formatting, so that no argument is misread.
 * %f rounds half up on the binary value; at most 9 decimals.
 */
#ifndef ZI_BASE_FMT_H
#define ZI_BASE_FMT_H

#include <stdarg.h>
#include <stddef.h>

/* As snprintf: writes at most cap bytes with the NUL, returns the length that the
 * whole text has. */
size_t zi_fmt(char *text, size_t cap, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
size_t zi_vfmt(char *text, size_t cap, const char *fmt, va_list args)
    __attribute__((format(printf, 3, 0)));

#endif /* ZI_BASE_FMT_H */
