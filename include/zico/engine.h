/* zico/engine.h -- train a network, or run it forward.
 *
 * An *engine* is one net ready to run: kernels chosen, memory planned, parameters set.  A net
 * written with training = 1 gives an engine that trains; with training = 0 one that only runs
 * forward, with running statistics and without dropout.
 *
 *     zico_engine *e;
 *     zico_engine_options opt = ZICO_ENGINE_OPTIONS_INIT;
 *     if (zico_engine_open(net, &opt, why, sizeof why, &e) < 0) puts(why);
 *     for (int i = 0; i < 500; i++) zico_engine_train(e, x, y, opt.lr, &loss);
 *     zico_engine_save(e, "net.safetensors");
 *     zico_engine_close(e);
 *
 * Started under a broker (ZICO_SOCKET in the environment, or socket_path) an engine is one of
 * its jobs: every step waits for the broker's word.  Otherwise its memory is its own.
 *
 * For the same net, seed, batches and thread count the results are the same bits, also after
 * save and load.  An engine belongs to one thread at a time.  Nothing here ends the process or
 * prints; failures leave the engine usable, except where they say otherwise.
 */
#ifndef ZICO_ENGINE_H
#define ZICO_ENGINE_H

#include <stddef.h>
#include <stdint.h>
#include "zico/graph.h"
#include "zico/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zico_engine zico_engine;

typedef enum zico_optimizer {
    ZICO_SGD,
    ZICO_MOMENTUM,
    ZICO_ADAM,
    ZICO_ADAMW,
} zico_optimizer;

typedef struct zico_engine_options {
    uint32_t struct_size;     /* set by the INIT macro; lets the struct grow           */
    zico_optimizer optimizer; /* of a net for training                                 */
    double         lr;        /* a good rate for the optimizer above; yours to use     */
    double         momentum;  /* negative: PyTorch's default for the optimizer         */
    double      weight_decay; /* negative: likewise                                    */
    double      clip_norm;    /* 0: gradients are not clipped                          */
    uint64_t    seed;         /* of parameters that begin at random                    */
    uint32_t    n_threads;    /* 0: all cores                                          */
    uint64_t    budget_bytes; /* 0: no limit of its own                                */
    const char *planner;      /* who fits a step into the budget; NULL: keep           */
    const char *socket_path;  /* NULL: ZICO_SOCKET in the environment, else no broker  */
} zico_engine_options;

#define ZICO_ENGINE_OPTIONS_INIT                                                         \
    ((zico_engine_options){.struct_size = sizeof(zico_engine_options),                   \
                           .optimizer = ZICO_ADAM,                                       \
                           .lr = 1e-3,                                                   \
                           .momentum = -1,                                               \
                           .weight_decay = -1,                                           \
                           .seed = 1})

/* `net` must be finished; it may be freed afterwards.  On failure `why` (may be NULL) takes a
 * sentence of at most cap bytes.  E_BUDGET: it says how much memory is needed. */
ZICO_API ZICO_NODISCARD zico_status zico_engine_open(const zico_net            *net,
                                                     const zico_engine_options *opt,
                                                     char *why, size_t cap,
                                                     zico_engine **ret_engine);
ZICO_API void                       zico_engine_close(zico_engine *e); /* NULL is fine */

/* The sentence for the last failure of a call on this engine; "" while there was none. */
ZICO_API const char *zico_engine_error(const zico_engine *e);

/* ---- steps ---------------------------------------------------------------------------- */

/* Bytes of one batch of the input, the labels (0: none) and the prediction. */
ZICO_API size_t zico_engine_input_bytes(const zico_engine *e);
ZICO_API size_t zico_engine_label_bytes(const zico_engine *e);
ZICO_API size_t zico_engine_output_bytes(const zico_engine *e);

/* One step on one batch; waits for its loss (ret_loss may be NULL).  E_STATE: the net was not
 * written for training.  E_NAN: the loss is not finite; load a checkpoint to go on. */
ZICO_API ZICO_NODISCARD zico_status zico_engine_train(zico_engine *e, const void *x,
                                                      const void *y, double lr,
                                                      double *ret_loss);

/* Forward only: the prediction (output 0) for one batch.  E_STATE: the net is for training. */
ZICO_API ZICO_NODISCARD zico_status zico_engine_run(zico_engine *e, const void *x,
                                                    void *ret_output, size_t n_bytes);

/* Steps trained so far, those before a loaded checkpoint included. */
ZICO_API uint64_t zico_engine_steps(const zico_engine *e);

/* ---- parameters ------------------------------------------------------------------------- */

/* Parameters, optimizer state and step number in one safetensors file, replaced only by a whole
 * one.  Parameters are called as in PyTorch. */
ZICO_API ZICO_NODISCARD zico_status zico_engine_save(zico_engine *e, const char *path);

/* From a file of zico_engine_save or `zico train`.  An engine that trains needs the optimizer's
 * state, too; one that runs forward takes parameters and running statistics.  Nothing is set on
 * failure. */
ZICO_API ZICO_NODISCARD zico_status zico_engine_load(zico_engine *e, const char *path);

/* Parameters and running statistics of another engine of the same network: to judge while
 * training. */
ZICO_API ZICO_NODISCARD zico_status zico_engine_adopt(zico_engine *e, zico_engine *from);

/* One parameter or running statistic by its name, as float32. */
ZICO_API ZICO_NODISCARD zico_status zico_engine_get(zico_engine *e, const char *name,
                                                    float *ret_data, size_t n_floats);
ZICO_API ZICO_NODISCARD zico_status zico_engine_set(zico_engine *e, const char *name,
                                                    const float *data, size_t n_floats);

/* Bytes of tensors now, and at most so far. */
ZICO_API void zico_engine_memory(zico_engine *e, uint64_t *ret_now, uint64_t *ret_peak);

#ifdef __cplusplus
}
#endif
#endif /* ZICO_ENGINE_H */
