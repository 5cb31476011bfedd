/* Makes each flush of the process that preloads this library take 1 ms longer, after the disk has finished. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

static int slowly(const char *name, int fd) {
  int (*flush)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
  int result = flush(fd);
  struct timespec left = {0, 1000000};
  while (nanosleep(&left, &left) != 0) {
  }
  return result;
}

int fsync(int fd) { return slowly("fsync", fd); }
int fdatasync(int fd) { return slowly("fdatasync", fd); }
