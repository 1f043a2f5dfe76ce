/* sources.h -- the kinds of sources, by name.  Private to the room. */
#ifndef ZI_TRAIN_SOURCES_H
#define ZI_TRAIN_SOURCES_H

#include "train/data.h"

extern const zi_source_ops zi_source_npy, zi_source_mnist, zi_source_cifar,
    zi_source_text, zi_source_synthetic;

#endif /* ZI_TRAIN_SOURCES_H */
