/* test.h -- what every test program includes: cmocka in its order, and a few helpers.
 *
 *   int main(void) { return t_main(tests); }
 *
 * Random tests draw from t_rand(); the seed is printed when the program starts
 * and ZI_SEED=N replays it.  Without ZI_SEED a fixed sample is used, so that
 * the suite says the same thing twice; ZI_SEED=random takes the clock's.
 * ZI_TEST=name* runs only the tests of that name.
 */
#ifndef ZI_TEST_H
#define ZI_TEST_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zico/status.h"

/* The call must not fail; the message names the status. */
#define expect_ok(expr) t_expect_ok_((expr), #expr, __FILE__, __LINE__)

/* The call must end exactly so. */
#define expect_status(want, expr)                                                        \
    t_expect_status_((want), (expr), #expr, __FILE__, __LINE__)

void t_expect_ok_(zico_status st, const char *expr, const char *file, int line);
void t_expect_status_(zico_status want, zico_status st, const char *expr,
                      const char *file, int line);

/* Random numbers from the printed seed. */
uint64_t t_seed(void);
uint64_t t_rand(void);
uint64_t t_rand_below(uint64_t n); /* 0 .. n-1; n > 0 */
double   t_rand_unit(void);        /* [0, 1) */
void     t_reseed(uint64_t seed);  /* for loops over seeds: prints nothing */

/* How often to repeat: `normal` in the suite, `soak` under ZI_SOAK=1. */
unsigned t_rounds(unsigned normal, unsigned soak);

/* A fresh folder of mode 0700 under TMPDIR; t_rmdir removes it with what is in
 * it.  Both fail the test rather than return an error.  Folders that are left
 * at exit of the process that made them are removed then. */
const char *t_tmpdir(void);
void        t_rmdir(const char *dir);

/* "dir/name" in a static ring of 16 strings. */
const char *t_path(const char *dir, const char *name);

/* build/dev/..., and the source tree; from ZI_BUILD_DIR / ZI_SOURCE_DIR, else guessed
 * from where the program lies.  Same ring as t_path. */
const char *t_build(const char *name);
const char *t_source(const char *name);

/* Runs the group; prints the seed.  The process's exit code. */
#define t_main(tests) (t_begin_(), cmocka_run_group_tests(tests, NULL, NULL))
void t_begin_(void);

#endif /* ZI_TEST_H */
