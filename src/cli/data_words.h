/* cli/data_words.h -- the options that say where samples come from, for train and infer. */
#ifndef ZI_CLI_DATA_WORDS_H
#define ZI_CLI_DATA_WORDS_H

#include <stdbool.h>
#include "report/report.h"
#include "train/data.h"

typedef struct zi_data_words {
    const char *data, *labels, *mnist, *cifar, *text;
    bool        synthetic, plain;
    uint64_t    samples;
    double      held;
} zi_data_words;

/* Rows for the table of options; `w` is the name of a zi_data_words. */
/* clang-format off */
#define ZI_DATA_ARGS(w)                                                                        \
    {"data", ZI_ARG_TEXT, &(w).data, "X.npy", "samples (N, ...), float32, float64 or uint8"},  \
    {"labels", ZI_ARG_TEXT, &(w).labels, "Y.npy", "their labels (N), whole numbers"},          \
    {"mnist", ZI_ARG_TEXT, &(w).mnist, "DIR", "a folder with MNIST's IDX files, unpacked"},    \
    {"cifar", ZI_ARG_TEXT, &(w).cifar, "DIR", "a folder with CIFAR-10's or -100's .bin files"},\
    {"text", ZI_ARG_TEXT, &(w).text, "FILE", "a text, for language models"},                   \
    {"synthetic", ZI_ARG_FLAG, &(w).synthetic, NULL, "made up, learnable (default)"},          \
    {"samples", ZI_ARG_U64, &(w).samples, "N", "how many synthetic ones (50000)"}
/* clang-format on */

/* ZICO_E_ARG: a line on standard error said what does not go together. */
zico_status zi_data_words_read(const zi_data_words *w, const char *command,
                               bool need_labels, uint64_t seed, zi_data_spec *ret_spec);

/* What the terminal behind this descriptor shows. */
zi_style zi_terminal_style(int fd);

#endif /* ZI_CLI_DATA_WORDS_H */
