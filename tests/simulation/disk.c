/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/disk.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "tests/simulation/world.h"

#define FIRST_NUMBER 2

/* A change of a name that is not on the disk yet. The changes of a group are atomic. */
typedef struct {
	Inode *directory;
	char *name;
	Inode *inode; /* NULL if the name was removed */
	guint64 group;
} Change;

static struct {
	gboolean is_ordered;
	Inode *root;
	GPtrArray *numbers; /* (element-type Inode): by number; NULL if free */
	GPtrArray *journal; /* (element-type Change): the oldest first */
	guint64 n_groups;
} disk;

/* Inodes */

static Inode *inode_ref(Inode *inode)
{
	inode->n_references++;
	return inode;
}

static void inode_unref(Inode *inode)
{
	if (--inode->n_references > 0)
		return;
	for (guint i = 0; inode->entries != NULL && i < inode->entries->len; i++) {
		Inode *child = ((DiskEntry *)inode->entries->pdata[i])->inode;

		if (child->parent == inode)
			child->parent = NULL;
	}
	/* a file that was created in a removed directory keeps its number */
	if (inode->number < disk.numbers->len && disk.numbers->pdata[inode->number] == inode)
		disk.numbers->pdata[inode->number] = NULL;
	g_clear_pointer(&inode->data, g_byte_array_unref);
	g_clear_pointer(&inode->synced_data, g_byte_array_unref);
	g_clear_pointer(&inode->entries, g_ptr_array_unref);
	g_clear_pointer(&inode->synced_entries, g_ptr_array_unref);
	g_free(inode);
}

static void assign_number(Inode *inode)
{
	guint number = FIRST_NUMBER;

	while (number < disk.numbers->len && disk.numbers->pdata[number] != NULL)
		number++;
	if (number >= disk.numbers->len)
		g_ptr_array_set_size(disk.numbers, (gint)number + 1);
	disk.numbers->pdata[number] = inode;
	inode->number = number;
}

/* Frees the number of an inode without names and descriptors, so that the next file can get it. */
static void free_number(Inode *inode)
{
	if (inode->n_links > 0 || inode->n_open > 0 || inode->number == 0)
		return;
	disk.numbers->pdata[inode->number] = NULL;
	inode->number = 0;
}

static void entry_free(gpointer data)
{
	DiskEntry *entry = data;

	inode_unref(entry->inode);
	g_free(entry->name);
	g_free(entry);
}

static Inode *inode_new(mode_t mode)
{
	Inode *inode = g_new0(Inode, 1);

	inode->n_references = 1;
	inode->mode = mode;
	inode->uid = geteuid();
	inode->data = g_byte_array_new();
	inode->synced_data = g_byte_array_new();
	if (S_ISDIR(mode)) {
		inode->entries = g_ptr_array_new_with_free_func(entry_free);
		inode->synced_entries = g_ptr_array_new_with_free_func(entry_free);
	}
	assign_number(inode);
	return inode;
}

void disk_open(Inode *inode)
{
	inode_ref(inode)->n_open++;
}

void disk_close(Inode *inode)
{
	inode->n_open--;
	free_number(inode);
	inode_unref(inode);
}

/* Names */

static Inode *find_entry_inode(const GPtrArray *entries, const char *name)
{
	for (guint i = 0; i < entries->len; i++) {
		const DiskEntry *entry = entries->pdata[i];

		if (g_str_equal(entry->name, name))
			return entry->inode;
	}
	return NULL;
}

/* @inode: (nullable): %NULL removes the name. */
static void set_entry(GPtrArray *entries, const char *name, Inode *inode)
{
	DiskEntry *added = NULL;

	if (inode != NULL) {
		added = g_new(DiskEntry, 1);
		*added = (DiskEntry){g_strdup(name), inode_ref(inode)};
	}
	for (guint i = 0; i < entries->len; i++)
		if (g_str_equal(((DiskEntry *)entries->pdata[i])->name, name)) {
			g_ptr_array_remove_index(entries, i);
			break;
		}
	if (added != NULL)
		g_ptr_array_add(entries, added);
}

static void change_free(gpointer data)
{
	Change *change = data;

	inode_unref(change->directory);
	if (change->inode != NULL)
		inode_unref(change->inode);
	g_free(change->name);
	g_free(change);
}

static void change_name(Inode *directory, const char *name, Inode *inode, guint64 group)
{
	Inode *old = find_entry_inode(directory->entries, name);
	Change *change = g_new(Change, 1);

	if (inode != NULL)
		inode->n_links++;
	if (old != NULL) {
		old->n_links--;
		old->parent = NULL;
		free_number(old);
	}
	if (inode != NULL && S_ISDIR(inode->mode))
		inode->parent = directory;
	*change = (Change){inode_ref(directory), g_strdup(name),
			   inode != NULL ? inode_ref(inode) : NULL, group};
	g_ptr_array_add(disk.journal, change);
	set_entry(directory->entries, name, inode);
}

Inode *disk_make(Inode *directory, const char *name, mode_t mode)
{
	Inode *inode = inode_new(mode);

	change_name(directory, name, inode, ++disk.n_groups);
	inode_unref(inode); /* the name has its own reference */
	return inode;
}

void disk_remove(Inode *directory, const char *name)
{
	change_name(directory, name, NULL, ++disk.n_groups);
}

void disk_rename(Inode *directory, const char *from, const char *to)
{
	Inode *inode = inode_ref(find_entry_inode(directory->entries, from));

	change_name(directory, to, inode, ++disk.n_groups);
	change_name(directory, from, NULL, disk.n_groups);
	inode_unref(inode);
}

Inode *disk_root(void)
{
	return disk.root;
}

static Inode *find_child(Inode *inode, const char *name)
{
	Inode *next = inode;

	if (!S_ISDIR(inode->mode)) {
		errno = ENOTDIR;
		return NULL;
	}
	if (g_str_equal(name, ".."))
		next = inode == disk.root ? inode : inode->parent;
	else if (*name != '\0' && !g_str_equal(name, "."))
		next = find_entry_inode(inode->entries, name);
	if (next == NULL)
		errno = ENOENT;
	return next;
}

Inode *disk_find(Inode *directory, const char *path)
{
	g_auto(GStrv) names = g_strsplit(path, "/", -1);
	Inode *inode = *path == '/' ? disk.root : directory;

	for (guint i = 0; inode != NULL && names[i] != NULL; i++)
		inode = find_child(inode, names[i]);
	return inode;
}

/* Syncs */

static void copy_bytes(GByteArray *to, const GByteArray *from)
{
	g_byte_array_set_size(to, 0);
	g_byte_array_append(to, from->data, from->len);
}

static void write_change(const Change *change)
{
	set_entry(change->directory->synced_entries, change->name, change->inode);
}

/* @directory: (nullable): %NULL writes the changes of all directories */
static void write_changes(const Inode *directory)
{
	for (guint i = 0; i < disk.journal->len;) {
		const Change *change = disk.journal->pdata[i];

		if (directory != NULL && change->directory != directory) {
			i++;
			continue;
		}
		write_change(change);
		g_ptr_array_remove_index(disk.journal, i);
	}
}

void disk_sync(Inode *inode)
{
	if (!S_ISDIR(inode->mode))
		copy_bytes(inode->synced_data, inode->data);
	if (disk.is_ordered)
		write_changes(NULL);
	else if (S_ISDIR(inode->mode))
		write_changes(inode);
}

/* Power failures */

static void settle_names(DiskLoss loss)
{
	guint64 last_group = 0, coin_group = 0;
	gboolean coin = FALSE;

	if (disk.journal->len > 0)
		last_group = disk.n_groups - (guint64)world_between(0, (gint64)disk.journal->len);
	for (guint i = 0; i < disk.journal->len; i++) {
		const Change *change = disk.journal->pdata[i];

		if (change->group != coin_group)
			coin = world_odds(0.5);
		coin_group = change->group;
		if (loss == DISK_KEEPS_ALL ||
		    (loss == DISK_DRAWS && (disk.is_ordered ? change->group <= last_group : coin)))
			write_change(change);
	}
	g_ptr_array_set_size(disk.journal, 0);
}

static gboolean is_synced(const Inode *inode)
{
	return inode->data->len == inode->synced_data->len &&
	       memcmp(inode->data->data, inode->synced_data->data, inode->data->len) == 0;
}

static void draw_data(Inode *inode)
{
	guint n_kept = (guint)world_between(0, inode->data->len);

	switch (world_between(0, 3)) {
	case 0:
		return;
	case 1:
		copy_bytes(inode->data, inode->synced_data);
		return;
	case 2:
		g_byte_array_set_size(inode->data, n_kept);
		return;
	default:
		memset(inode->data->data + n_kept, 0, inode->data->len - n_kept);
	}
}

static void settle_data(Inode *inode, DiskLoss loss)
{
	if (loss == DISK_LOSES_ALL)
		copy_bytes(inode->data, inode->synced_data);
	else if (loss == DISK_DRAWS && inode->data->len > 0 && !is_synced(inode))
		draw_data(inode);
	copy_bytes(inode->synced_data, inode->data);
}

static void reset_links(Inode *inode)
{
	inode->n_links = inode->n_open = 0;
	inode->number = 0;
	inode->locked_by = NULL;
	for (guint i = 0; S_ISDIR(inode->mode) && i < inode->synced_entries->len; i++)
		reset_links(((DiskEntry *)inode->synced_entries->pdata[i])->inode);
}

static void restore_inode(Inode *inode, DiskLoss loss)
{
	if (inode->number == 0)
		assign_number(inode);
	inode->n_links++;
	if (!S_ISDIR(inode->mode)) {
		settle_data(inode, loss);
		return;
	}
	g_ptr_array_set_size(inode->entries, 0);
	for (guint i = 0; i < inode->synced_entries->len; i++) {
		const DiskEntry *entry = inode->synced_entries->pdata[i];

		set_entry(inode->entries, entry->name, entry->inode);
		if (S_ISDIR(entry->inode->mode))
			entry->inode->parent = inode;
		restore_inode(entry->inode, loss);
	}
}

void disk_fail_power(DiskLoss loss)
{
	settle_names(loss);
	g_ptr_array_set_size(disk.numbers, 0);
	reset_links(disk.root);
	restore_inode(disk.root, loss);
}

/* Actions of an operator */

static void sync_all(void)
{
	write_changes(NULL);
	for (guint i = 0; i < disk.numbers->len; i++) {
		const Inode *inode = disk.numbers->pdata[i];

		if (inode != NULL)
			copy_bytes(inode->synced_data, inode->data);
	}
}

static Inode *find_parent(const char *path)
{
	g_autofree char *parent = g_path_get_dirname(path);
	Inode *directory = disk_find(disk.root, parent);

	g_assert_nonnull(directory);
	return directory;
}

Inode *disk_put(const char *path, mode_t mode)
{
	g_autofree char *name = g_path_get_basename(path);
	Inode *inode = disk_make(find_parent(path), name, mode);

	sync_all();
	return inode;
}

void disk_edit_text(const char *path, const char *text)
{
	Inode *inode = disk_find(disk.root, path);

	g_byte_array_set_size(inode->data, 0);
	g_byte_array_append(inode->data, (const guint8 *)text, (guint)strlen(text));
	sync_all();
}

void disk_put_text(const char *path, const char *text)
{
	disk_put(path, S_IFREG | 0600);
	disk_edit_text(path, text);
}

void disk_move(const char *from, const char *to)
{
	g_autofree char *old_name = g_path_get_basename(from);
	g_autofree char *name = g_path_get_basename(to);
	Inode *inode = inode_ref(disk_find(disk.root, from));
	Inode *directory = find_parent(to);

	disk_remove(find_parent(from), old_name);
	if (inode->number == 0)
		assign_number(inode);
	change_name(directory, name, inode, ++disk.n_groups);
	inode_unref(inode);
	sync_all();
}

static void remove_content(Inode *inode)
{
	while (S_ISDIR(inode->mode) && inode->entries->len > 0) {
		const DiskEntry *entry = inode->entries->pdata[0];
		g_autofree char *name = g_strdup(entry->name);

		remove_content(entry->inode);
		disk_remove(inode, name);
	}
}

void disk_remove_all(const char *path)
{
	g_autofree char *name = g_path_get_basename(path);

	remove_content(disk_find(disk.root, path));
	disk_remove(find_parent(path), name);
	sync_all();
}

void disk_copy(const char *from, const char *to, gboolean as_links)
{
	const Inode *source = disk_find(disk.root, from);
	g_autofree char *name = g_path_get_basename(to);
	Inode *copy = disk_make(find_parent(to), name, source->mode);

	for (guint i = 0; i < source->entries->len; i++) {
		const DiskEntry *entry = source->entries->pdata[i];

		if (as_links)
			change_name(copy, entry->name, entry->inode, ++disk.n_groups);
		else
			copy_bytes(disk_make(copy, entry->name, entry->inode->mode)->data,
				   entry->inode->data);
	}
	sync_all();
}

void disk_init(gboolean is_ordered)
{
	disk.is_ordered = is_ordered;
	disk.numbers = g_ptr_array_new();
	disk.journal = g_ptr_array_new_with_free_func(change_free);
	disk.root = inode_new(S_IFDIR | 0755);
	disk.root->n_links = 1;
}

void disk_clear(void)
{
	g_clear_pointer(&disk.journal, g_ptr_array_unref);
	g_clear_pointer(&disk.root, inode_unref);
	g_clear_pointer(&disk.numbers, g_ptr_array_unref);
}
