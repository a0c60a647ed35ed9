/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <sys/stat.h>

/*
 * A file system in memory that knows which of its state survives a power failure. One per world.
 *
 * A write reaches the disk with the fsync() of its file. A name that is made, removed or replaced
 * reaches it with the fsync() of its directory. Until then a power failure can lose it or keep it:
 *
 *  - ordered, as ext4 with data=ordered: the names change on the disk in their true order, and an
 *    fsync() of any file writes all changes before it
 *  - unordered, the least that POSIX promises: each change is lost or kept by itself
 *
 * Data that no fsync() has written is lost, kept, cut short or replaced by zeros.
 *
 * A number (st_ino) that no file has any more is used again, the lowest first.
 */
typedef struct Inode Inode;
struct Inode {
	guint n_references;
	guint64 number; /* 0: no name and no descriptor leads here any more */
	mode_t mode;
	uid_t uid;
	guint n_links;
	guint n_open;              /* descriptors */
	GByteArray *data;          /* of a file */
	GByteArray *synced_data;   /* what is on the disk */
	GPtrArray *entries;        /* of a directory: of DiskEntry */
	GPtrArray *synced_entries; /* what is on the disk */
	Inode *parent;             /* (nullable): of a directory */
	gconstpointer locked_by;   /* the open file that holds the flock() */
};

typedef struct {
	char *name;
	Inode *inode;
} DiskEntry;

void disk_init(gboolean is_ordered);
void disk_clear(void);

Inode *disk_root(void);

/* (nullable): with errno set. @path: absolute, or from @directory. */
Inode *disk_find(Inode *directory, const char *path);

/* Changes of names, in a directory that has a name itself. @mode: with its S_IFMT. */
Inode *disk_make(Inode *directory, const char *name, mode_t mode);
void disk_remove(Inode *directory, const char *name);
void disk_rename(Inode *directory, const char *from, const char *to);

/* A descriptor refers to the inode, or does not any more. */
void disk_open(Inode *inode);
void disk_close(Inode *inode);

/* As fsync(). */
void disk_sync(Inode *inode);

typedef enum {
	DISK_KEEPS_ALL,
	DISK_LOSES_ALL, /* that was not synced */
	DISK_DRAWS,
} DiskLoss;

/* The power fails and comes back. No descriptor refers to the disk any more. */
void disk_fail_power(DiskLoss loss);

/* What an operator does. All of it is on the disk at once, and everything else with it. */

/* Replaces the file with a new one, or makes it. */
void disk_put_text(const char *path, const char *text);
/* Writes into the file that is there. */
void disk_edit_text(const char *path, const char *text);
/* Makes a file or a directory of any mode. */
Inode *disk_put(const char *path, mode_t mode);
void disk_move(const char *from, const char *to);
/* A directory with all that is in it, or a file. */
void disk_remove_all(const char *path);
/* A directory with the files in it. @as_links: the same files under a second name. */
void disk_copy(const char *from, const char *to, gboolean as_links);
