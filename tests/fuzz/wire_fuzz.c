/* wire_fuzz.c -- the decoder faces arbitrary bytes.
 *
 * Whatever it accepts must encode again to exactly the same bytes, and print.
 */
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static zi_msg        m;
    static unsigned char back[ZI_WIRE_MAX];
    const char          *why = NULL;
    size_t               len;
    char                 line[128];

    if (zi_wire_decode(data, size, 0, &m, &why) < 0) {
        if (!why || !*why) abort();
        return 0;
    }
    zi_msg_print(&m, line, sizeof line);
    if (zi_wire_encode(&m, 1, back, sizeof back, &len) < 0) abort();
    if (len != size) abort();
    back[4] = data[4]; /* opening messages may come in another version */
    back[5] = data[5];
    if (memcmp(back, data, len) != 0) abort();
    return 0;
}
