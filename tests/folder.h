/* Temporary folders of tests. */
#ifndef OUTRIDER_TESTS_FOLDER_H
#define OUTRIDER_TESTS_FOLDER_H

#include <ftw.h>
#include <stdio.h>

static inline int folder_remove_entry(const char *name, const struct stat *status, int type,
                                      struct FTW *at)
{
    (void)status, (void)type, (void)at;
    return remove(name);
}

/* The folder with all that is in it. */
static inline void folder_remove(const char *folder)
{
    nftw(folder, folder_remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

#endif
