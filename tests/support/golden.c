/* golden.c -- stored texts, and how they are rewritten. */
#include "golden.h"
#include "test.h"

static char *
read_all(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    char *text = calloc(1, (size_t)n + 1);
    assert_non_null(text);
    assert_int_equal((size_t)n, fread(text, 1, (size_t)n, f));
    fclose(f);
    return text;
}

/* The first line in which a and b differ, counted from 1. */
static unsigned
first_difference(const char *a, const char *b, const char **ret_a, const char **ret_b)
{
    unsigned line = 1;

    *ret_a = a, *ret_b = b;
    for (; *a && *a == *b; a++, b++)
        if (*a == '\n') line++, *ret_a = a + 1, *ret_b = b + 1;
    return line;
}

void
t_golden_(const char *name, const char *text, const char *file, int line)
{
    char        sub[512];
    const char *mode = getenv("ZI_GOLDEN");

    snprintf(sub, sizeof sub, "tests/golden/%s", name);
    const char *path = t_source(sub);
    if (mode && strcmp(mode, "rewrite") == 0) {
        FILE *f = fopen(path, "wb");
        if (!f) fail_msg("cannot write %s", path);
        assert_int_equal(strlen(text), fwrite(text, 1, strlen(text), f));
        assert_int_equal(0, fclose(f));
        return;
    }
    char *want = read_all(path);
    if (!want) fail_msg("%s is missing (ZI_GOLDEN=rewrite makes it)", path);
    if (strcmp(want, text) != 0) {
        const char *w, *g;
        unsigned    at = first_difference(want, text, &w, &g);
        print_error("%s differs at line %u (ZI_GOLDEN=rewrite accepts)\n"
                    "  stored: %.*s\n  now:    %.*s\n",
                    path, at, (int)strcspn(w, "\n"), w, (int)strcspn(g, "\n"), g);
        free(want);
        _fail(file, line);
    }
    free(want);
}
