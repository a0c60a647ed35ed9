/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <sys/stat.h>

/*
 * A file system in memory that models power failures. There is one per world.
 *
 * A write reaches the disk with the fsync() of its file. A change of a name reaches the disk with
 * the fsync() of its directory. Until then a power failure can lose or keep the change:
 *
 *  - ordered, as ext4 with data=ordered: the names change on the disk in their true order, and an
 *    fsync() of any file writes all changes before it
 *  - unordered, the minimum of POSIX: each change is lost or kept independently
 *
 * Data that no fsync() has written is lost, kept, cut short or replaced by zeros.
 *
 * The inode number (st_ino) of a removed file is used again, the lowest number first.
 */
typedef struct Inode Inode;
struct Inode {
	guint n_references;
	guint64 number; /* st_ino; 0 if no name and no descriptor refers to the inode */
	mode_t mode;
	uid_t uid;
	guint n_links;
	guint n_open;              /* number of descriptors */
	GByteArray *data;          /* content of a file */
	GByteArray *synced_data;   /* content on the disk */
	GPtrArray *entries;        /* (element-type DiskEntry): in a directory */
	GPtrArray *synced_entries; /* entries on the disk */
	Inode *parent;             /* (nullable): parent of a directory */
	gconstpointer locked_by;   /* the open file that holds the flock() */
};

typedef struct {
	char *name;
	Inode *inode;
} DiskEntry;

void disk_init(gboolean is_ordered);
void disk_clear(void);

Inode *disk_root(void);

/* Returns: (nullable): the inode, or %NULL with errno set. @path: absolute, or relative to
 *   @directory. */
Inode *disk_find(Inode *directory, const char *path);

/* Changes of names. @directory: not removed. @mode: with its S_IFMT. */
Inode *disk_make(Inode *directory, const char *name, mode_t mode);
void disk_remove(Inode *directory, const char *name);
void disk_rename(Inode *directory, const char *from, const char *to);

/* Count a descriptor of the inode in, and out. */
void disk_open(Inode *inode);
void disk_close(Inode *inode);

/* Writes to the disk what fsync() of the inode would write. */
void disk_sync(Inode *inode);

typedef enum {
	DISK_KEEPS_ALL,
	DISK_LOSES_ALL, /* unsynced changes are lost */
	DISK_DRAWS,     /* unsynced changes are lost or kept at random */
} DiskLoss;

/* Simulates a power failure, and restores the disk. No descriptor may refer to the disk. */
void disk_fail_power(DiskLoss loss);

/* Actions of an operator. Each of them syncs the whole disk. */

/* Creates a file, or replaces it with a new inode. */
void disk_put_text(const char *path, const char *text);
/* Writes into an existing file. */
void disk_edit_text(const char *path, const char *text);
/* Creates a file or a directory of any mode. */
Inode *disk_put(const char *path, mode_t mode);
void disk_move(const char *from, const char *to);
/* Removes a file, or a directory with its content. */
void disk_remove_all(const char *path);
/* Copies a directory with its files. @as_links: create hard links instead of copies */
void disk_copy(const char *from, const char *to, gboolean as_links);
