/* train_own.c -- a network of one's own: written down, trained, saved, loaded, judged.
 *
 * It learns to tell whether a stripe in a noisy picture stands or lies.
 * cc train_own.c -lzico && ./a.out [FILE]          ctest: run */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "zico/engine.h"

enum { BATCH = 16, SIZE = 12, STEPS = 60 };

static zico_net *
write_net(int training)
{
    zico_net   *net = zico_net_new("stripes", training, 42);
    zico_tensor x =
        zico_net_input(net, "x", ZICO_F32, 4, (int64_t[]){BATCH, 1, SIZE, SIZE});

    x = zico_net_conv2d(net, x, "conv1", &(zico_conv){.out = 8, .kernel = 3, .pad = 1});
    x = zico_net_relu(net, zico_net_batch_norm(net, x, "bn1"));
    x = zico_net_conv2d(net, x, "conv2",
                        &(zico_conv){.out = 16, .kernel = 3, .stride = 2});
    x = zico_net_relu(net, zico_net_batch_norm(net, x, "bn2"));
    x = zico_net_flatten(net, zico_net_global_avg_pool(net, x), 1);
    x = zico_net_linear(net, x, "fc", 2, 1);
    if (training)
        zico_net_cross_entropy(net, x,
                               zico_net_label(net, "labels", 1, (int64_t[]){BATCH}));
    else
        zico_net_output(net, x);
    return net;
}

static void
draw(float x[BATCH][SIZE][SIZE], int32_t label[BATCH])
{
    for (int n = 0; n < BATCH; n++) {
        int at = rand() % SIZE;
        label[n] = rand() % 2;
        for (int i = 0; i < SIZE; i++)
            for (int k = 0; k < SIZE; k++)
                x[n][i][k] = (label[n] ? k == at : i == at) + (float)(rand() % 100) / 200;
    }
}

static zico_engine *
open_engine(int training)
{
    zico_engine_options opt = ZICO_ENGINE_OPTIONS_INIT;
    zico_engine        *e;
    zico_net           *net = write_net(training);
    char                why[300];

    if (zico_net_finish(net) < 0 ||
        zico_engine_open(net, &opt, why, sizeof why, &e) < 0) {
        fprintf(stderr, "%s\n", *zico_net_error(net) ? zico_net_error(net) : why);
        exit(1);
    }
    zico_net_free(net);
    return e;
}

int
main(int argc, char **argv)
{
    static float x[BATCH][SIZE][SIZE];
    float        logits[BATCH][2];
    int32_t      label[BATCH];
    double       loss = 0;
    int          right = 0;
    char         made_up[64];
    const char  *path = argc > 1 ? argv[1] : made_up;

    snprintf(made_up, sizeof made_up, "/tmp/stripes-%d.safetensors", (int)getpid());
    zico_engine *e = open_engine(1);
    for (int i = 0; i < STEPS; i++) {
        draw(x, label);
        if (zico_engine_train(e, x, label, 0.01, &loss) < 0) goto failed;
        if (i % 20 == 0 || i == STEPS - 1) printf("step %d: loss %.4f\n", i + 1, loss);
    }
    if (zico_engine_save(e, path) < 0) goto failed;
    zico_engine_close(e);

    e = open_engine(0); /* forward only, from the file */
    if (zico_engine_load(e, path) < 0) goto failed;
    draw(x, label);
    if (zico_engine_run(e, x, logits, sizeof logits) < 0) goto failed;
    for (int n = 0; n < BATCH; n++) right += (logits[n][1] > logits[n][0]) == label[n];
    printf("%d of %d right; saved %s\n", right, BATCH, path);
    zico_engine_close(e);
    if (argc < 2) unlink(path);
    return right < BATCH - 2;

failed:
    fprintf(stderr, "%s\n", zico_engine_error(e));
    zico_engine_close(e);
    return 1;
}
