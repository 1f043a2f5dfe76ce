/* score_test.c -- accuracy, loss, and which tensors of a network are sample and label. */
#include <math.h>
#include "graph/zoo/zoo.h"
#include "test.h"
#include "train/evaluate.h"

#define near(a, b) assert_true(fabs((a) - (b)) < 1e-6)

/* Two samples, three classes: one right, one wrong; the loss is the mean of both. */
static void
classes(void **state)
{
    const float   x[2][3] = {{0, 2, 1}, {1, 0, 0}};
    const int32_t y[2] = {1, 2};
    zi_data_want  want = {.y = {ZI_DTYPE_I32, 0, {0}}, .has_y = true, .n_classes = 3};
    zi_shape      shape = {ZI_DTYPE_F32, 2, {2, 3}};
    zi_score      s = {0};

    (void)state;
    expect_ok(zi_score_add(&s, &shape, &x[0][0], &want, 2, y));
    assert_int_equal(2, s.n_labels);
    near(1, s.accuracy);
    near(log(exp(-2) + 1 + exp(-1)) + log(1 + 2 * exp(-1)) + 1, s.loss);
    expect_status(ZICO_E_SHAPE, zi_score_add(&s, &shape, &x[0][0], &want, 3, y));
}

/* Maps have the classes on axis 1, tokens on the last: a square case tells them apart. */
static void
the_axis_of_classes_counts(void **state)
{
    const float   x[2][2] = {{0, 5}, {1, 0}}; /* one sample, 2 by 2 */
    const int32_t y[2] = {0, 1};
    zi_data_want  want = {.y = {ZI_DTYPE_I32, 1, {2}},
                          .has_y = true,
                          .n_classes = 2,
                          .class_axis = 2};
    zi_shape      shape = {ZI_DTYPE_F32, 3, {1, 2, 2}};
    zi_score      rows = {0}, columns = {0};

    (void)state;
    expect_ok(
        zi_score_add(&rows, &shape, &x[0][0], &want, 1, y)); /* {0,5}: 1, {1,0}: 0 */
    near(0, rows.accuracy);
    want.class_axis = 1;
    expect_ok(
        zi_score_add(&columns, &shape, &x[0][0], &want, 1, y)); /* {0,1}: 1, {5,0}: 0 */
    near(0, columns.accuracy);
    const int32_t other[2] = {1, 0};
    expect_ok(zi_score_add(&columns, &shape, &x[0][0], &want, 1, other));
    near(2, columns.accuracy);
    near(log(1 + exp(-1)) + log(1 + exp(-5)) + log(1 + exp(-1)) + 1 + log(1 + exp(-5)) +
             5,
         columns.loss);
}

/* Targets are judged by the mean squared error; there is no accuracy. */
static void
targets(void **state)
{
    const float  x[2] = {1, 2}, y[2] = {0, 4};
    zi_data_want want = {.y = {ZI_DTYPE_F32, 0, {0}}, .has_y = true};
    zi_shape     shape = {ZI_DTYPE_F32, 2, {2, 1}};
    zi_score     s = {0};

    (void)state;
    expect_ok(zi_score_add(&s, &shape, x, &want, 2, y));
    assert_int_equal(0, s.n_labels);
    near(5, s.loss); /* sum over the samples of (1 + 4) / 2 */
}

static zi_io
io_of(const char *spec, bool training)
{
    zi_graph     *g;
    zi_io         io;
    zi_graph_diag diag;
    zi_train_diag why = {""};

    expect_ok(zi_zoo_build(spec, 4, training, 1, &diag, &g));
    expect_ok(zi_io_find(g, &why, &io));
    zi_graph_free(g);
    return io;
}

/* Every kind of network of the zoo says what one of its samples is. */
static void
networks_say_what_they_want(void **state)
{
    (void)state;
    zi_io io = io_of("resnet20:classes=7", true);
    assert_int_equal(4, io.batch);
    assert_int_equal(3, io.want.x.rank);
    assert_int_equal(0, io.want.y.rank);
    assert_int_equal(7, io.want.n_classes);
    assert_int_equal(0, io.want.vocab);
    io = io_of("gpt:vocab=50,seq=8,width=16,layers=1,heads=2", true);
    assert_int_equal(50, io.want.vocab);
    assert_int_equal(50, io.want.n_classes);
    assert_int_equal(ZI_DTYPE_I32, io.want.x.dtype);
    assert_int_equal(8, io.want.y.dims[0]);
    assert_int_equal(2, io.want.class_axis);
    io = io_of("unet:size=16,width=2,classes=3", true);
    assert_int_equal(1, io.want.class_axis);
    assert_int_equal(2, io.want.y.rank);
    io = io_of("resnet20", false);
    assert_false(io.want.has_y);
    assert_int_equal(ZI_ID_NONE, io.y);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes),
        cmocka_unit_test(the_axis_of_classes_counts),
        cmocka_unit_test(targets),
        cmocka_unit_test(networks_say_what_they_want),
    };
    return t_main(tests);
}
