/* evaluate.h -- how good a network is on samples that it has not learnt from. */
#ifndef ZI_TRAIN_EVALUATE_H
#define ZI_TRAIN_EVALUATE_H

#include "train/engine.h"

typedef struct zi_score {
    uint64_t n_samples;
    uint64_t n_labels; /* judged; 0: the labels are no classes           */
    double   accuracy; /* share of labels whose class got the top logit  */
    double   loss;     /* mean cross-entropy, or mean squared error      */
} zi_score;

/* Runs `n_batches` of the loader through a forward engine.  `want` are the training graph's
 * labels; logits have the classes on axis 1 (images: (N,C) or (N,C,H,W)) or last (tokens). */
ZICO_NODISCARD zico_status zi_evaluate(zi_engine *forward, zi_loader *loader,
                                       uint64_t n_batches, const zi_data_want *want,
                                       zi_train_diag *diag, zi_score *ret_score);

/* One batch: logits (or predictions) against labels.  Pure; adds to the score's sums
 * (accuracy and loss are sums here, made means by the caller above). */
ZICO_NODISCARD zico_status zi_score_add(zi_score *score, const zi_shape *logits,
                                        const float *x, const zi_data_want *want,
                                        int64_t batch, const void *y);

#endif /* ZI_TRAIN_EVALUATE_H */
