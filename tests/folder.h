/* Temporary folders of tests. */
#ifndef OUTRIDER_TESTS_FOLDER_H
#define OUTRIDER_TESTS_FOLDER_H

#include <check.h>
#include <dirent.h>
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

/* Files in it, but for those whose name begins with a dot. */
static inline size_t folder_count(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    size_t n = 0;

    ck_assert_ptr_nonnull(dir);
    while ((entry = readdir(dir)))
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

#endif
