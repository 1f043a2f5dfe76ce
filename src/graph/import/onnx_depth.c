/* onnx_depth.c -- how deep are the messages of a file nested?
 *
 * protobuf-c parses by recursion, without a limit.  In ONNX only two circles exist: graphs
 * within attributes, and types within types.  This walk follows just these, counts, and
 * reads nothing else; whether the rest is well-formed is the parser's to say.
 */
#include "graph/import/onnx_import.h"

#define MAX_DEPTH 24

typedef enum kind {
    OTHER,
    MODEL,
    GRAPH,
    NODE,
    ATTR,
    VALUE,
    TYPE,
    WRAP,
    MAP,
    FUNCTION
} kind;

/* What the message in field `f` of a message of kind `k` is, as far as it can nest. */
static kind
inside(kind k, uint64_t f)
{
    switch (k) {
    case MODEL:
        return f == 7 ? GRAPH : f == 25 ? FUNCTION : f == 20 ? WRAP : OTHER;
    case GRAPH:
        return f == 1 ? NODE : f == 11 || f == 12 || f == 13 ? VALUE : OTHER;
    case FUNCTION:
        return f == 7 ? NODE : OTHER;
    case NODE:
        return f == 5 ? ATTR : OTHER;
    case ATTR:
        return f == 6 || f == 11 ? GRAPH : f == 14 || f == 15 ? TYPE : OTHER;
    case VALUE:
        return f == 2 ? TYPE : OTHER;
    case TYPE:
        return f == 4 || f == 9 ? WRAP : f == 5 ? MAP : OTHER;
    case WRAP:
        return f == 1 ? TYPE : OTHER;
    case MAP:
        return f == 2 ? TYPE : OTHER;
    default:
        return OTHER;
    }
}

static bool
varint(const uint8_t **p, const uint8_t *end, uint64_t *ret)
{
    *ret = 0;
    for (unsigned shift = 0; *p < end && shift < 64; shift += 7) {
        uint8_t c = *(*p)++;
        *ret |= (uint64_t)(c & 127) << shift;
        if (c < 128) return true;
    }
    return false;
}

static bool
walk(const uint8_t *p, const uint8_t *end, kind k, int depth)
{
    uint64_t tag, n;
    if (depth > MAX_DEPTH) return false;
    while (p < end) {
        if (!varint(&p, end, &tag)) return true;
        switch (tag & 7) {
        case 0:
            if (!varint(&p, end, &n)) return true;
            break;
        case 1:
        case 5:
            n = (tag & 7) == 1 ? 8 : 4;
            if ((uint64_t)(end - p) < n) return true;
            p += n;
            break;
        case 2:
            if (!varint(&p, end, &n) || (uint64_t)(end - p) < n) return true;
            /* training_info holds graphs in its fields 1 and 2: count both ways */
            if (k == WRAP && depth == 1 && (tag >> 3 == 1 || tag >> 3 == 2)) {
                if (!walk(p, p + n, GRAPH, depth + 1)) return false;
            } else if (inside(k, tag >> 3) != OTHER &&
                       !walk(p, p + n, inside(k, tag >> 3), depth + 1)) {
                return false;
            }
            p += n;
            break;
        default:
            return true;
        }
    }
    return true;
}

bool
zi_onnx_depth_ok(const uint8_t *data, size_t n_bytes)
{
    return walk(data, data + n_bytes, MODEL, 0);
}
