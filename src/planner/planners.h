/* planner/planners.h -- the tables of this room; others ask zi_planner_find. */
#ifndef ZI_PLANNER_PLANNERS_H
#define ZI_PLANNER_PLANNERS_H

#include "planner/planner.h"

extern const zi_planner_ops zi_planner_auto;         /* auto.c         */
extern const zi_planner_ops zi_planner_keep;         /* baseline.c     */
extern const zi_planner_ops zi_planner_keep_all;     /* baseline.c     */
extern const zi_planner_ops zi_planner_cheap;        /* baseline.c     */
extern const zi_planner_ops zi_planner_monger;       /* monger.c       */
extern const zi_planner_ops zi_planner_vdnn;         /* vdnn.c         */
extern const zi_planner_ops zi_planner_superneurons; /* superneurons.c */
extern const zi_planner_ops zi_planner_capuchin;     /* capuchin.c     */

#endif /* ZI_PLANNER_PLANNERS_H */
