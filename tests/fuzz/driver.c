/* driver.c -- runs a fuzz target over stored inputs, without libFuzzer.
 *
 * usage: NAME_fuzz FILE-OR-FOLDER...     A missing or empty folder is a failure:
 * a target without stored inputs would test nothing.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned n_inputs;

static int
run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    struct stat sb;
    if (fstat(fileno(f), &sb) != 0) sb.st_size = 0;
    size_t   size = (size_t)sb.st_size;
    uint8_t *data =
        malloc(size ? size : 1); /* exact, so that ASan sees one byte too far */
    if (!data || fread(data, 1, size, f) != size) {
        fprintf(stderr, "%s: cannot read\n", path);
        free(data);
        fclose(f);
        return 1;
    }
    fclose(f);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    n_inputs++;
    return 0;
}

static int
run_path(const char *path)
{
    struct stat sb;
    if (stat(path, &sb) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    if (!S_ISDIR(sb.st_mode)) return run_file(path);

    DIR *d = opendir(path);
    int  bad = !d;
    for (struct dirent *e; d && (e = readdir(d));) {
        char sub[PATH_MAX];
        if (e->d_name[0] == '.') continue;
        snprintf(sub, sizeof sub, "%s/%s", path, e->d_name);
        bad |= run_path(sub);
    }
    if (d) closedir(d);
    return bad;
}

int
main(int argc, char **argv)
{
    int bad = 0;
    for (int i = 1; i < argc; i++) bad |= run_path(argv[i]);
    printf("%u inputs\n", n_inputs);
    return bad || n_inputs == 0;
}
