/* names.h -- from a name to an id, for the tensors and nodes of one graph.
 *
 * Keys are not copied: a name must outlive its entry (the graph owns both).
 */
#ifndef ZI_GRAPH_NAMES_H
#define ZI_GRAPH_NAMES_H

#include <stdint.h>
#include "zico/status.h"

typedef enum zi_name_kind { ZI_NAME_TENSOR, ZI_NAME_NODE } zi_name_kind;

typedef struct zi_names zi_names;

ZICO_NODISCARD zico_status zi_names_new(zi_names **ret_names);
void                       zi_names_free(zi_names *n);
void                       zi_names_clear(zi_names *n);

/* The key must not be there yet. */
ZICO_NODISCARD zico_status zi_names_put(zi_names *n, zi_name_kind kind, const char *key,
                                        uint32_t id);
uint32_t
zi_names_get(const zi_names *n, zi_name_kind kind, const char *key); /* or NONE */

#endif /* ZI_GRAPH_NAMES_H */
