/* jobfile_fuzz.c -- any bytes as a job file: an error or a file, never a crash or a leak. */
#include <stdlib.h>
#include <string.h>
#include "cli/jobfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zi_jobfile *f = NULL;
    zi_str      why = {0};
    char       *text = malloc(size + 1);
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = 0;
    if (zi_jobfile_parse("fuzz", text, size, &f, &why) == ZICO_OK) zi_jobfile_free(f);
    zi_str_free(&why);
    free(text);
    return 0;
}
