/* A wall clock that is wrong by PILOTAGE_TESTKIT_CLOCK_OFFSET seconds; loaded before libc. Other clocks are right. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    long failed = syscall(SYS_clock_gettime, clock, time);
    if (failed == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        const char *offset = getenv("PILOTAGE_TESTKIT_CLOCK_OFFSET");
        time->tv_sec += offset == NULL ? 0 : atol(offset);
    }
    return (int)failed;
}
