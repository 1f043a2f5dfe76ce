/* broker/tide_store.h -- tides of jobs that have left, for the next of the same shape. */
#ifndef ZI_BROKER_TIDE_STORE_H
#define ZI_BROKER_TIDE_STORE_H

#include "os/os.h"
#include "tide/tide.h"

typedef struct zi_tide_store zi_tide_store;

/* With `dir` (may be NULL; copied) tides are also files there: SHAPE.tide, as text. */
zico_status
     zi_tide_store_new(const zi_os *os, const char *dir, zi_tide_store **ret_store);
void zi_tide_store_free(zi_tide_store *s); /* NULL is fine */

/* The tide of a shape; NULL: none is known.  Valid until the next call. */
const zi_tide *zi_tide_store_get(zi_tide_store *s, uint64_t shape);
/* Shape 0 is nobody's and is not kept.  The least recently used one makes room. */
void zi_tide_store_put(zi_tide_store *s, uint64_t shape, const zi_tide *t);
/* Of a job that has no shape, a command: for people, NAME.tide in the folder, if there is one.
 * Nobody is taken for its like.  Names that are no plain file names are not kept. */
void zi_tide_store_keep(zi_tide_store *s, const char *name, const zi_tide *t);

#endif /* ZI_BROKER_TIDE_STORE_H */
