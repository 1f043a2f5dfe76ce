/* cli/status_view.h -- a picture of a broker as text or JSON.  Pure. */
#ifndef ZI_CLI_STATUS_VIEW_H
#define ZI_CLI_STATUS_VIEW_H

#include "base/str.h"
#include "cli/watch.h"
#include "report/report.h"

zico_status zi_status_text(const zi_picture *p, const zi_style *style, zi_str *out);
zico_status zi_status_json(const zi_picture *p, zi_str *out); /* one line */

#endif /* ZI_CLI_STATUS_VIEW_H */
