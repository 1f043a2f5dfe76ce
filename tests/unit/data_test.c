/* data_test.c -- sources deliver what the network wants or say why not; loaders keep order. */
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/alloc.h"
#include "os/fake.h"
#include "test.h"
#include "train/data.h"

static void
write_file(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(n, fwrite(data, 1, n, f));
    assert_int_equal(0, fclose(f));
}

static zi_data_want
image_want(int64_t c, int64_t h, int64_t w, int64_t classes)
{
    return (zi_data_want){.x = {ZI_DTYPE_F32, 3, {c, h, w}},
                          .y = {ZI_DTYPE_I32, 0, {0}},
                          .has_y = true,
                          .n_classes = classes};
}

static zi_data_want
token_want(int64_t window, int64_t vocab)
{
    return (zi_data_want){.x = {ZI_DTYPE_I32, 1, {window}},
                          .y = {ZI_DTYPE_I32, 1, {window}},
                          .has_y = true,
                          .n_classes = vocab,
                          .vocab = vocab};
}

static zi_source *
open_ok(const zi_data_spec *spec, const zi_data_want *want)
{
    zi_train_diag diag = {""};
    zi_source    *s = NULL;

    zico_status st = zi_source_open(zi_os_real(), spec, want, &diag, &s);
    if (st < 0) fail_msg("%s: %s", zico_status_name(st), diag.text);
    return s;
}

/* Refused with that status and a sentence that has this in it. */
static void
open_fails(const zi_data_spec *spec, const zi_data_want *want, zico_status why,
           const char *words)
{
    zi_train_diag diag = {""};
    zi_source    *s = NULL;

    expect_status(why, zi_source_open(zi_os_real(), spec, want, &diag, &s));
    if (!strstr(diag.text, words)) fail_msg("'%s' is not in '%s'", words, diag.text);
    assert_null(s);
}

/* ---- npy ----------------------------------------------------------------------------- */

static void
write_npy(const char *path, const char *dict, const void *data, size_t n)
{
    uint8_t file[1024] = "\x93NUMPY\x01\x00";
    size_t  len = strlen(dict);

    file[8] = (uint8_t)len, file[9] = 0;
    memcpy(file + 10, dict, len);
    memcpy(file + 10 + len, data, n);
    write_file(path, file, 10 + len + n);
}

/* Floats come through as they are, bytes are scaled, missing dims of size 1 are forgiven. */
static void
npy_files(void **state)
{
    const char *dir = t_tmpdir();
    const char *px = t_path(dir, "x.npy"), *py = t_path(dir, "y.npy");
    uint8_t     bytes[8] = {0, 51, 102, 255, 1, 2, 3, 4};
    int64_t     labels[2] = {1, 0};
    float       x[4];
    int32_t     y;

    (void)state;
    write_npy(px, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2, 2), }", bytes,
              8);
    write_npy(py, "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }", labels,
              16);
    zi_data_spec spec = {.kind = "npy", .path = px, .labels = py};
    zi_data_want want = image_want(1, 2, 2, 2);
    zi_source   *s = open_ok(&spec, &want);
    assert_int_equal(2, s->n_samples);
    expect_ok(zi_source_read(s, 0, 0, x, &y, NULL));
    assert_true(fabsf(x[1] - 0.2f) < 1e-6f && x[3] == 1.0f);
    assert_int_equal(1, y);
    zi_source_close(s);

    open_fails(&spec, &(zi_data_want){.x = {ZI_DTYPE_F32, 1, {5}}}, ZICO_E_SHAPE,
               "(2, 2)");
    labels[0] = 7;
    write_npy(py, "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }", labels,
              16);
    s = open_ok(&spec, &want);
    zi_train_diag diag = {""};
    expect_status(ZICO_E_FORMAT, zi_source_read(s, 0, 0, x, &y, &diag));
    assert_non_null(strstr(diag.text, "sample 0 has label 7"));
    zi_source_close(s);
    write_npy(py, "{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }", labels, 8);
    open_fails(&spec, &want, ZICO_E_SHAPE, "2 samples");
    spec.part = ZI_DATA_HELD;
    write_npy(py, "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }", labels,
              16);
    open_fails(&spec, &want, ZICO_E_NOTFOUND, "held back");
    spec.held = 0.5;
    s = open_ok(&spec, &want);
    assert_int_equal(1, s->n_samples);
    expect_ok(zi_source_read(s, 0, 0, x, &y, NULL));
    assert_int_equal(0, y);
    zi_source_close(s);
    t_rmdir(dir);
}

/* Missing, empty, cut and foreign files are told apart in words. */
static void
bad_npy_files(void **state)
{
    const char  *dir = t_tmpdir();
    const char  *px = t_path(dir, "x.npy");
    zi_data_spec spec = {.kind = "npy", .path = px, .labels = px};
    zi_data_want want = image_want(1, 2, 2, 2);

    (void)state;
    open_fails(&spec, &want, ZICO_E_NOTFOUND, "No such file");
    write_file(px, "", 0);
    open_fails(&spec, &want, ZICO_E_FORMAT, "not a .npy file");
    write_npy(px, "{'descr': '<f4', 'fortran_order': False, 'shape': (9, 2, 2), }", "abc",
              3);
    open_fails(&spec, &want, ZICO_E_FORMAT, "promises");
    write_npy(px, "{'descr': '<c8', 'fortran_order': False, 'shape': (9, 2, 2), }", "abc",
              3);
    open_fails(&spec, &want, ZICO_E_UNSUPPORTED, "'<c8'");
    write_npy(px, "{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }", "", 0);
    open_fails(&spec, &want, ZICO_E_FORMAT, "no samples");
    spec.path = dir;
    open_fails(&spec, &want, ZICO_E_OS, "directory");
    spec.kind = "tape";
    open_fails(&spec, &want, ZICO_E_NOTFOUND, "'tape'");
    t_rmdir(dir);
}

/* A pipe in place of a file is refused at once, not waited for. */
static void
a_pipe_does_not_hang(void **state)
{
    const char   *dir = t_tmpdir();
    const char   *px = t_path(dir, "x.npy");
    zi_data_want  want = image_want(1, 2, 2, 2);
    zi_train_diag diag = {""};
    zi_source    *s = NULL;

    (void)state;
    assert_int_equal(0, mkfifo(px, 0600));
    zi_data_spec spec = {.kind = "npy", .path = px, .labels = px};
    assert_true(zi_source_open(zi_os_real(), &spec, &want, &diag, &s) < 0);
    t_rmdir(dir);
}

/* ---- mnist ---------------------------------------------------------------------------- */

static void
make_mnist(const char *dir, uint8_t n_images, uint8_t n_labels)
{
    uint8_t image[16 + 2 * 9] = {0, 0, 8, 3, 0, 0, 0, n_images, 0, 0, 0, 3, 0, 0, 0, 3};
    uint8_t label[8 + 2] = {0, 0, 8, 1, 0, 0, 0, n_labels, 4, 9};

    for (int i = 0; i < 18; i++) image[16 + i] = (uint8_t)(10 * i);
    write_file(t_path(dir, "train-images-idx3-ubyte"), image, sizeof image);
    write_file(t_path(dir, "train-labels.idx1-ubyte"), label, sizeof label);
}

/* Images stand in the middle of a larger want, grey in all three channels. */
static void
mnist_folder(void **state)
{
    const char  *dir = t_tmpdir();
    zi_data_spec spec = {.kind = "mnist", .path = dir};
    zi_data_want want = image_want(3, 5, 5, 10), flat = want;
    float        x[75];
    int32_t      y;

    (void)state;
    make_mnist(dir, 2, 2);
    zi_source *s = open_ok(&spec, &want);
    expect_ok(zi_source_read(s, 1, 0, x, &y, NULL));
    assert_int_equal(9, y);
    float blank = -0.1307f / 0.3081f, first = (90 / 255.0f - 0.1307f) / 0.3081f;
    assert_true(fabsf(x[0] - blank) < 1e-5f && fabsf(x[6] - first) < 1e-5f);
    assert_memory_equal(x, x + 50, 25 * sizeof *x);
    zi_source_close(s);
    flat.x = (zi_shape){ZI_DTYPE_F32, 1, {9}};
    s = open_ok(&spec, &flat);
    expect_ok(zi_source_read(s, 1, 0, x, &y, NULL));
    assert_true(fabsf(x[0] - first) < 1e-5f);
    zi_source_close(s);

    zi_data_want small = image_want(1, 2, 2, 10);
    open_fails(&spec, &small, ZICO_E_SHAPE, "(1, 3, 3)");
    spec.part = ZI_DATA_HELD;
    open_fails(&spec, &want, ZICO_E_NOTFOUND, "t10k-images");
    spec.part = ZI_DATA_TRAIN;
    make_mnist(dir, 2, 1);
    open_fails(&spec, &want, ZICO_E_FORMAT, "promises");
    make_mnist(dir, 200, 2);
    open_fails(&spec, &want, ZICO_E_FORMAT, "promises");
    write_file(t_path(dir, "train-images-idx3-ubyte"), "\x1f\x8b packed packed packed",
               20);
    open_fails(&spec, &want, ZICO_E_FORMAT, "gunzip");
    t_rmdir(dir);
}

/* ---- cifar ---------------------------------------------------------------------------- */

/* Five files are one set; the label is the record's first byte; crops move the image. */
static void
cifar_folder(void **state)
{
    const char    *dir = t_tmpdir();
    zi_data_spec   spec = {.kind = "cifar", .path = dir};
    zi_data_want   want = image_want(3, 32, 32, 10);
    static uint8_t record[2 * 3073];
    static float   x[3 * 32 * 32], moved[3 * 32 * 32];
    int32_t        y;
    char           name[32];

    (void)state;
    open_fails(&spec, &want, ZICO_E_NOTFOUND, "data_batch_1.bin");
    for (int f = 1; f <= 5; f++) {
        for (int r = 0; r < 2; r++) {
            record[r * 3073] = (uint8_t)(2 * (f - 1) + r);
            for (int i = 0; i < 3072; i++)
                record[r * 3073 + 1 + i] = (uint8_t)(i * 7 + f);
        }
        snprintf(name, sizeof name, "data_batch_%d.bin", f);
        write_file(t_path(dir, name), record, sizeof record);
    }
    zi_source *s = open_ok(&spec, &want);
    assert_int_equal(10, s->n_samples);
    for (uint64_t i = 0; i < 10; i++) {
        expect_ok(zi_source_read(s, i, 0, x, &y, NULL));
        assert_int_equal(i, y);
    }
    zi_source_close(s);
    spec.augment = true;
    s = open_ok(&spec, &want);
    /* draw 0 moves by -4, -4: what was at (4, 4) is now at (0, 0) */
    expect_ok(zi_source_read(s, 9, 0, moved, &y, NULL));
    assert_true(moved[0] == x[4 * 32 + 4]);
    /* 4 + 4 * 9 does not move, 81 more flips */
    expect_ok(zi_source_read(s, 9, 4 + 4 * 9 + 81, moved, &y, NULL));
    assert_true(moved[0] == x[31] && moved[31] == x[0]);
    zi_source_close(s);
    write_file(t_path(dir, "data_batch_3.bin"), record, 3000);
    open_fails(&spec, &want, ZICO_E_FORMAT, "whole records");
    t_rmdir(dir);
}

/* ---- text ------------------------------------------------------------------------------ */

/* Windows follow each other; the target is the next token; few tokens get a small table. */
static void
text_file(void **state)
{
    const char  *dir = t_tmpdir();
    const char  *path = t_path(dir, "t.txt");
    zi_data_spec spec = {.kind = "text", .path = path};
    zi_data_want want = token_want(4, 256);
    int32_t      x[4], y[4];

    (void)state;
    write_file(path, "abcabcabcab", 11); /* two windows of 4 + 1 */
    zi_source *s = open_ok(&spec, &want);
    assert_int_equal(2, s->n_samples);
    expect_ok(zi_source_read(s, 1, 0, x, y, NULL));
    assert_int_equal('b', x[0]);
    assert_int_equal('c', y[0]);
    assert_int_equal('c', y[3]);
    zi_source_close(s);
    want = token_want(4, 3);
    s = open_ok(&spec, &want);
    expect_ok(zi_source_read(s, 0, 0, x, y, NULL));
    assert_int_equal(0, x[0]);
    assert_int_equal(1, y[0]);
    write_file(path, "zzzabcabcab", 11);
    zi_train_diag diag = {""};
    expect_status(ZICO_E_FORMAT, zi_source_read(s, 0, 0, x, y, &diag));
    assert_non_null(strstr(diag.text, "changed"));
    zi_source_close(s);
    want = token_want(4, 2);
    open_fails(&spec, &want, ZICO_E_SHAPE, "different bytes");
    want = token_want(11, 256);
    open_fails(&spec, &want, ZICO_E_FORMAT, "one window takes 12");
    want = image_want(1, 2, 2, 2);
    open_fails(&spec, &want, ZICO_E_SHAPE, "tokens");
    t_rmdir(dir);
}

/* ---- synthetic ---------------------------------------------------------------------------- */

/* The same seed gives the same sample, another seed another; classes can be told apart:
 * the nearest mean of 20 samples per class finds the class of nearly all fresh samples. */
static void
synthetic_classes_can_be_learnt(void **state)
{
    enum { CLASSES = 5, PIXELS = 3 * 16 * 16, EACH = 20 };
    static float mean[CLASSES][PIXELS], x[PIXELS], again[PIXELS];
    unsigned     n[CLASSES] = {0}, right = 0;
    zi_data_want want = image_want(3, 16, 16, CLASSES);
    zi_data_spec spec = {.kind = "synthetic", .seed = 7};
    int32_t      y;

    (void)state;
    memset(mean, 0, sizeof mean);
    zi_source *s = open_ok(&spec, &want);
    for (uint64_t i = 0; i < CLASSES * EACH; i++) {
        expect_ok(zi_source_read(s, i, 0, x, &y, NULL));
        assert_in_range(y, 0, CLASSES - 1);
        n[y]++;
        for (int k = 0; k < PIXELS; k++) mean[y][k] += x[k];
    }
    expect_ok(zi_source_read(s, CLASSES * EACH - 1, 99, again, &y, NULL));
    assert_memory_equal(x, again, sizeof x);
    zi_source_close(s);
    spec.part = ZI_DATA_HELD;
    s = open_ok(&spec, &want);
    for (uint64_t i = 0; i < 100; i++) {
        int    best = 0;
        double least = INFINITY;
        expect_ok(zi_source_read(s, i, 0, x, &y, NULL));
        for (int c = 0; c < CLASSES; c++) {
            double d = 0;
            for (int k = 0; k < PIXELS; k++)
                d += pow(x[k] - mean[c][k] / (n[c] ? n[c] : 1), 2);
            if (d < least) least = d, best = c;
        }
        right += best == y;
    }
    zi_source_close(s);
    assert_in_range(right, 95, 100);
}

/* Each kind of want gets samples; token chains are predictable beyond chance. */
static void
synthetic_kinds(void **state)
{
    zi_data_spec   spec = {.kind = "synthetic", .seed = 3};
    zi_data_want   want = token_want(2000, 1000);
    static int32_t x[2000], y[2000];
    static float   fx[4 * 64], fy[64];
    unsigned       seen[64][64] = {{0}}, hits = 0;

    (void)state;
    zi_source *s = open_ok(&spec, &want);
    expect_ok(zi_source_read(s, 0, 0, x, y, NULL));
    for (int i = 0; i < 2000; i++) {
        assert_in_range(x[i], 0, 63);
        if (i > 0) assert_int_equal(x[i], y[i - 1]);
        seen[x[i]][y[i]]++;
    }
    for (int a = 0; a < 64; a++) {
        unsigned most = 0;
        for (int b = 0; b < 64; b++)
            if (seen[a][b] > most) most = seen[a][b];
        hits += most;
    }
    assert_in_range(hits, 1200, 1700); /* about 70 % */
    zi_source_close(s);

    want = (zi_data_want){.x = {ZI_DTYPE_F32, 3, {4, 8, 8}},
                          .y = {ZI_DTYPE_I32, 2, {8, 8}},
                          .has_y = true,
                          .n_classes = 3};
    s = open_ok(&spec, &want);
    unsigned per_class[3] = {0};
    for (uint64_t i = 0; i < 20; i++) {
        expect_ok(zi_source_read(s, i, 0, fx, x, NULL));
        for (int k = 0; k < 64; k++) per_class[x[k]]++;
    }
    assert_true(per_class[0] && per_class[1] && per_class[2]);
    zi_source_close(s);

    want = (zi_data_want){.x = {ZI_DTYPE_F32, 1, {64}},
                          .y = {ZI_DTYPE_F32, 1, {2}},
                          .has_y = true};
    s = open_ok(&spec, &want);
    expect_ok(zi_source_read(s, 0, 0, fx, fy, NULL));
    assert_true(isfinite(fx[63]) && isfinite(fy[1]));
    zi_source_close(s);
    want.y = (zi_shape){ZI_DTYPE_I32, 1, {7}};
    open_fails(&spec, &want, ZICO_E_SHAPE, "no synthetic data");
}

/* ---- order ------------------------------------------------------------------------------ */

/* Every epoch visits each sample once, for any number of them, and epochs differ. */
static void
every_epoch_is_a_permutation(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 60; round++) {
        uint64_t n = round < 20 ? round + 1 : 1 + t_rand_below(3000), seed = t_rand();
        uint8_t *seen = calloc(n, 1);
        unsigned same = 0;
        assert_non_null(seen);
        for (uint64_t pos = 0; pos < n; pos++) {
            uint64_t i = zi_order_at(seed, round, n, pos);
            assert_true(i < n && !seen[i]);
            seen[i] = 1;
            same += i == zi_order_at(seed, round + 1, n, pos);
        }
        if (n > 1000) assert_true(same < n / 100);
        free(seen);
    }
}

/* ---- loader ------------------------------------------------------------------------------- */

static void
drain(zi_loader *l, int n, uint32_t *sum)
{
    const zi_batch *b;

    for (int i = 0; i < n; i++) {
        expect_ok(zi_loader_next(l, NULL, &b));
        for (int k = 0; k < 6 * 16; k++) *sum = *sum * 31 + ((const uint32_t *)b->x)[k];
        for (int k = 0; k < 6; k++) *sum = *sum * 31 + ((const uint32_t *)b->y)[k];
    }
}

/* Batches are the same with one thread or four, and when begun in the middle. */
static void
batches_do_not_depend_on_threads(void **state)
{
    zi_data_spec spec = {.kind = "synthetic", .seed = 5, .n_samples = 45};
    zi_data_want want = image_want(1, 4, 4, 10);
    zi_source   *s = open_ok(&spec, &want);
    uint32_t     first = 0, half[2] = {0, 0}, tail = 0;

    (void)state;
    for (unsigned threads = 1; threads <= 4; threads += 3) {
        zi_loader        *l;
        uint32_t          sum = 0;
        zi_loader_options o = {
            .source = s, .batch = 6, .seed = 9, .n_threads = threads, .n_ahead = 3};
        expect_ok(zi_loader_new(&o, &l));
        drain(l, 20, &sum);
        half[threads > 1] = sum;
        sum = 0;
        drain(l, 20, &sum);
        first = sum;
        zi_loader_stats stats;
        zi_loader_read_stats(l, &stats);
        assert_int_equal(40, stats.n_batches);
        zi_loader_free(l);
        o.position = 20 * 6;
        expect_ok(zi_loader_new(&o, &l));
        tail = 0;
        drain(l, 20, &tail);
        assert_int_equal(first, tail);
        zi_loader_free(l);
    }
    assert_int_equal(half[0], half[1]);
    zi_source_close(s);
}

/* A loader that nobody drains ends at once; one that fails says so again and again. */
static void
loaders_end_and_fail_cleanly(void **state)
{
    const char  *dir = t_tmpdir();
    const char  *path = t_path(dir, "t.txt");
    zi_data_spec spec = {.kind = "text", .path = path};
    zi_data_want want = token_want(4, 256);
    zi_loader   *l;

    (void)state;
    write_file(path, "abcabcabcabcabcab", 17);
    zi_source *s = open_ok(&spec, &want);
    expect_ok(zi_loader_new(
        &(zi_loader_options){.source = s, .batch = 2, .n_threads = 4, .n_ahead = 1}, &l));
    zi_loader_free(l);
    assert_int_equal(0, truncate(path, 3));
    expect_ok(zi_loader_new(&(zi_loader_options){.source = s, .batch = 2}, &l));
    for (int i = 0; i < 3; i++) {
        const zi_batch *b = NULL;
        zi_train_diag   diag = {""};
        expect_status(ZICO_E_FORMAT, zi_loader_next(l, &diag, &b));
        assert_non_null(strstr(diag.text, "ends at byte"));
    }
    zi_loader_free(l);
    zi_source_close(s);
    t_rmdir(dir);
}

/* Whichever kernel call or allocation fails, opening says so and nothing stays open. */
static void
opening_survives_every_failure(void **state)
{
    const char  *dir = t_tmpdir();
    zi_data_spec spec = {.kind = "mnist", .path = dir};
    zi_data_want want = image_want(1, 3, 3, 10);
    zi_fake     *fake;
    int64_t      live = zi_alloc_n_live();

    (void)state;
    make_mnist(dir, 2, 2);
    int spare = open("/dev/null", O_RDONLY);
    close(spare);
    for (uint64_t n = 0;; n++) {
        zi_train_diag diag = {""};
        zi_source    *s = NULL;
        expect_ok(zi_fake_new(&fake));
        zi_fake_fail_at(fake, NULL, n, 5);
        zico_status st = zi_source_open(zi_fake_os(fake), &spec, &want, &diag, &s);
        bool        failed = zi_fake_failed(fake);
        if (st >= 0) zi_source_close(s);
        if (st < 0) assert_true(diag.text[0] != '\0');
        zi_fake_free(fake);
        if (!failed) break;
        assert_true(n < 100);
    }
    for (uint64_t n = 1;; n++) {
        zi_source *s = NULL;
        zi_alloc_fail_at(n);
        zico_status st = zi_source_open(zi_os_real(), &spec, &want, NULL, &s);
        bool        failed = zi_alloc_has_failed();
        zi_alloc_fail_at(0);
        if (st >= 0) zi_source_close(s);
        assert_int_equal(live, zi_alloc_n_live());
        if (!failed) break;
        expect_status(ZICO_E_NOMEM, st);
    }
    int now = open("/dev/null", O_RDONLY);
    assert_int_equal(spare, now); /* no descriptor was lost */
    close(now);
    t_rmdir(dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(npy_files),
        cmocka_unit_test(bad_npy_files),
        cmocka_unit_test(a_pipe_does_not_hang),
        cmocka_unit_test(mnist_folder),
        cmocka_unit_test(cifar_folder),
        cmocka_unit_test(text_file),
        cmocka_unit_test(synthetic_classes_can_be_learnt),
        cmocka_unit_test(synthetic_kinds),
        cmocka_unit_test(every_epoch_is_a_permutation),
        cmocka_unit_test(batches_do_not_depend_on_threads),
        cmocka_unit_test(loaders_end_and_fail_cleanly),
        cmocka_unit_test(opening_survives_every_failure),
    };
    return t_main(tests);
}
