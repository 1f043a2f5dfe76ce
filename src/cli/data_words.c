/* data_words.c -- reads the options about samples. */
#include "cli/data_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

zico_status
zi_data_words_read(const zi_data_words *w, const char *command, bool need_labels,
                   uint64_t seed, zi_data_spec *ret_spec)
{
    const struct {
        const char *kind, *option, *path;
    } row[] = {{"npy", "--data", w->data},
               {"mnist", "--mnist", w->mnist},
               {"cifar", "--cifar", w->cifar},
               {"text", "--text", w->text},
               {"synthetic", "--synthetic", w->synthetic ? "" : NULL}};
    int found = -1;

    for (int i = 0; i < 5; i++) {
        if (!row[i].path) continue;
        if (found >= 0) {
            fprintf(stderr, "zico %s: %s and %s do not go together\n", command,
                    row[found].option, row[i].option);
            return ZICO_E_ARG;
        }
        found = i;
    }
    if (found < 0) found = 4;
    bool npy = found == 0;
    if (w->labels && !npy) {
        fprintf(stderr, "zico %s: --labels goes with --data\n", command);
        return ZICO_E_ARG;
    }
    if (npy && need_labels && !w->labels) {
        fprintf(stderr, "zico %s: --data needs --labels, too\n", command);
        return ZICO_E_ARG;
    }
    if (w->held >= 1) {
        fprintf(stderr, "zico %s: --held is a share below 1\n", command);
        return ZICO_E_ARG;
    }
    *ret_spec = (zi_data_spec){.kind = row[found].kind,
                               .path = row[found].path,
                               .labels = w->labels,
                               .seed = seed,
                               .n_samples = w->samples,
                               .held = w->held,
                               .augment = !w->plain};
    return ZICO_OK;
}

static const char *
locale_name(void)
{
    const char *const name[] = {"LC_ALL", "LC_CTYPE", "LANG"};

    for (int i = 0; i < 3; i++) {
        const char *v = getenv(name[i]);
        if (v && *v) return v;
    }
    return "";
}

zi_style
zi_terminal_style(int fd)
{
    struct winsize size = {.ws_col = 0};
    const char    *lang = locale_name();
    bool           utf8 = strstr(lang, "UTF-8") || strstr(lang, "utf8");
    const char    *no_colour = getenv("NO_COLOR");

    if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) size.ws_col = 80;
    return (zi_style){.unicode = utf8,
                      .colour = isatty(fd) && !(no_colour && *no_colour),
                      .width = size.ws_col - 1u};
}
