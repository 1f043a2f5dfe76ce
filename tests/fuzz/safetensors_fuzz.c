/* safetensors_fuzz.c -- any bytes at all as a checkpoint: a whole header, or a clear error;
 * what passes can be printed and parsed again. */
#include <stdlib.h>
#include <string.h>
#include "train/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_again(const zi_st_header *h, uint64_t data_bytes)
{
    zi_str        out = {0};
    zi_st_header *again = NULL;

    if (zi_st_print(h->tensors, h->n_tensors, h->meta, h->n_meta, &out) < 0) abort();
    if (zi_st_parse((const uint8_t *)out.at, out.n, out.n + data_bytes, NULL, &again) < 0)
        abort();
    if (again->n_tensors != h->n_tensors || again->n_meta != h->n_meta) abort();
    zi_st_free(again);
    zi_str_free(&out);
}

/* The writer replaces what is not UTF-8, so such names may meet each other. */
static int
is_ascii(const uint8_t *data, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (data[i] >= 0x80) return 0;
    return 1;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zi_train_diag diag = {""};
    zi_st_header *h;

    if (zi_st_parse(data, size, size, &diag, &h) < 0) {
        if (!diag.text[0]) abort();
        return 0;
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < h->n_tensors; i++) {
        const zi_st_tensor *t = &h->tensors[i];
        if (t->end > size - h->data_off || t->begin > t->end) abort();
        if (zi_st_find(h, t->name) != t) abort();
        sum += t->end - t->begin;
    }
    if (sum != size - h->data_off) abort();
    if (is_ascii(data + 8, h->data_off - 8)) check_again(h, sum);
    zi_st_free(h);
    return 0;
}
