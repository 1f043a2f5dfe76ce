/* zico/step.h -- mark the end of a training step in a C program run under `zico run`.
 *
 *     #include <zico/step.h>
 *     for (...) {
 *         train_one_batch();
 *         if (zico_step) zico_step();
 *     }
 *
 * Weak: outside of `zico run` it is NULL, and nothing needs to be linked.
 */
#ifndef ZICO_STEP_H
#define ZICO_STEP_H

#ifdef __cplusplus
extern "C" {
#endif

void zico_step(void) __attribute__((weak));

#ifdef __cplusplus
}
#endif
#endif /* ZICO_STEP_H */
