/* zoo_text.c -- prints the text form of a network's training graph.
 *
 * usage: zoo_text SPEC BATCH
 */
#include "graph/zoo/zoo.h"
#include "base/alloc.h"
#include "test.h"

int
main(int argc, char **argv)
{
    zi_graph     *g = NULL;
    zi_graph_diag d = {0};
    char         *text = NULL;
    if (argc != 3 || zi_zoo_build(argv[1], atoll(argv[2]), true, 1, &d, &g) < 0 ||
        zi_graph_print(g, &text) < 0) {
        fprintf(stderr, "zoo_text: %s\n", d.text);
        return 1;
    }
    fputs(text, stdout);
    zi_free(text);
    zi_graph_free(g);
    return 0;
}
