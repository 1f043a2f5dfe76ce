/* cli/yaml_file.h -- YAML files of ours: libcyaml for form, and errors that name the place.
 *
 *     zi_yaml y = {.name = path, .text = text, .why = &why, .help = "zico run --help"};
 *     ZI_TRY(zi_yaml_load(&y, n_bytes, &schema, &data));
 *     zi_yaml_size(&y, "budget", f->budget, &f->budget_bytes);
 *     if (y.st < 0) ...                      the first fault is the one to mend first
 *
 * Every fault becomes one line: FILE:LINE: KEY: what is wrong with it.
 */
#ifndef ZI_CLI_YAML_FILE_H
#define ZI_CLI_YAML_FILE_H

#include <cyaml/cyaml.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/str.h"
#include "zico/status.h"

/* A key whose value is kept as written; NULL where absent. */
#define ZI_YAML_WORD(key, type, field)                                                   \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, field,   \
                           0, 4096)

typedef struct zi_yaml {
    const char *name, *text;
    const char *help; /* the command that lists the keys */
    zi_str     *why;
    zico_status st; /* of the first fault */
} zi_yaml;

/* The whole text of a file of at most 1 MiB; *ret_text is the caller's, to zi_free. */
zico_status
zi_yaml_read(const char *path, zi_str *why, char **ret_text, size_t *ret_n_bytes);

/* E_FORMAT: not of that form; y->why says where. */
zico_status zi_yaml_load(zi_yaml *y, size_t n_bytes, const cyaml_schema_value_t *schema,
                         void **ret_data);
void zi_yaml_free(const cyaml_schema_value_t *schema, void *data); /* NULL is fine */

/* Complain about `key` where it has `value` (NULL: any), `skip` such lines further down. */
__attribute__((format(printf, 5, 6))) void
zi_yaml_blame(zi_yaml *y, const char *key, const char *value, unsigned skip,
              const char *fmt, ...);

/* Read what was written; NULL leaves *ret alone. */
bool zi_yaml_number(const char *text, double least, double most, double *ret_value);
void zi_yaml_size(zi_yaml *y, const char *key, const char *text, uint64_t *ret_bytes);
void zi_yaml_seconds(zi_yaml *y, const char *key, const char *text, uint64_t *ret_ns);
void zi_yaml_check(zi_yaml *y, const char *key, const char *text, double least,
                   double most, double *ret_value); /* ret_value may be NULL */

#endif /* ZI_CLI_YAML_FILE_H */
