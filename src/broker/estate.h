/* broker/estate.h -- what a broker leaves to its successor. */
#ifndef ZI_BROKER_ESTATE_H
#define ZI_BROKER_ESTATE_H

#include "broker/broker.h"
#include "broker/lease_table.h"
#include "os/rundir.h"

struct zi_estate {
    const zi_os  *os;
    zi_device    *dev;
    zi_pool      *pool;
    int           pool_fd; /* to be sent to jobs */
    zi_leases    *leases;
    zi_pool_shape shape;
    int           listen_fd;
    int           lock_fd;
    bool          unclean; /* the one before left its socket behind: its jobs may live */
    char          path[ZI_RUNDIR_PATH_MAX];
};

/* Replace pool and table by those that a job hands back.  Takes both descriptors, whatever
 * comes of it. */
zico_status zi_estate_take_over(zi_estate *e, int pool_fd, int table_fd);

/* Is this descriptor our pool? */
bool zi_estate_is_pool(const zi_estate *e, int fd);

#endif /* ZI_BROKER_ESTATE_H */
