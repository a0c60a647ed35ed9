/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <string.h>
#include <sys/file.h>
#include <systemd/sd-id128.h>
#include <unistd.h>

#include "worker/file/disk-call.h"

#define FIRST_FD   100000 /* lower descriptors are real */
#define FIRST_PID  1000
#define MAX_NESTED 6

/* The number of bytes that still fit on an almost full disk. */
#define LAST_BYTES 10

/* An open file description: the owner of a flock(). */
typedef struct {
	int fd;
	int flags;
	gsize offset;
	Inode *inode;
	const FilesProcess *process;
} OpenFile;

/* The state of an open directory, which a DIR points to. */
typedef struct {
	OpenFile *file;
	guint next;
	struct dirent entry;
} Listing;

static struct {
	FilesHook hook;
	FilesDisk disk;
	GPtrArray *open; /* (element-type OpenFile) */
	FilesProcess *process;
	int next_fd;
	int next_pid;
	guint n_nested;
	int error; /* error that the current call reports after its effect */
} files;

void files_init(gboolean is_ordered)
{
	memset(&files, 0, sizeof(files));
	disk_init(is_ordered);
	files.open = g_ptr_array_new();
	files.next_fd = FIRST_FD;
	files.next_pid = FIRST_PID;
}

void files_clear(void)
{
	g_clear_pointer(&files.open, g_ptr_array_unref);
	disk_clear();
}

void files_set_hook(FilesHook hook)
{
	files.hook = hook;
}

FilesDisk *files_disk(void)
{
	return &files.disk;
}

/* Processes */

FilesProcess *files_process_new(WorldMachine *machine, guint machine_id)
{
	FilesProcess *process = g_new0(FilesProcess, 1);

	process->machine = machine;
	process->pid = files.next_pid++;
	process->machine_id = machine_id;
	return process;
}

void files_process_free(FilesProcess *process)
{
	files_kill(process);
	g_free(process);
}

static void close_file(OpenFile *file)
{
	if (file->inode->locked_by == file)
		file->inode->locked_by = NULL;
	disk_close(file->inode);
	g_ptr_array_remove(files.open, file);
	g_free(file);
}

void files_kill(FilesProcess *process)
{
	process->has_ended = TRUE;
	for (guint i = files.open->len; i-- > 0;) {
		OpenFile *file = files.open->pdata[i];

		if (file->process == process)
			close_file(file);
	}
}

gboolean files_run(FilesProcess *process, void (*call)(gpointer data), gpointer data)
{
	FilesProcess *outer = files.process;
	jmp_buf kill_point;

	g_assert_null(process->kill_point);
	if (process->has_ended)
		return FALSE;
	files.process = process;
	process->kill_point = &kill_point;
	if (setjmp(kill_point) == 0)
		call(data);
	process->kill_point = NULL;
	if (process->has_ended)
		disk_call_end(); /* the call during which it was killed */
	files.process = outer;
	return !process->has_ended;
}

void files_wait_us(gint64 us)
{
	FilesProcess *process = files.process;
	WorldMachine *machine = world_machine();

	if (files.n_nested == MAX_NESTED) {
		world_spend_us(us);
		return;
	}
	files.n_nested++;
	files.process = NULL;
	world_run_for(us);
	files.n_nested--;
	files.process = process;
	world_enter(machine);
}

static void end_if_killed(void)
{
	if (files.process->has_ended)
		longjmp(*(jmp_buf *)files.process->kill_point, 1);
}

/* System calls: each begins with begin_call() and ends with end_call(). Only the linker refers to
 * them, so no header declares them. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

static gboolean fail_call(int code)
{
	errno = code;
	return FALSE;
}

/* Returns: %FALSE if the call fails, with errno set. @about: text for the trace */
static gboolean begin_call(const char *call, const char *about)
{
	FilesProcess *process = files.process;
	FilesOutcome outcome = FILES_WORKS;
	int code = 0;

	end_if_killed();
	process->n_calls++;
	if (files.hook != NULL)
		outcome = files.hook(process, call, &code);
	end_if_killed();
	world_note(process->machine, "pid %d: %s %s%s%s", process->pid, call, about,
		   code != 0 ? ": " : "", code != 0 ? g_strerror(code) : "");
	files.error = outcome == FILES_FAILS_AFTER ? code : 0;
	return outcome != FILES_FAILS || fail_call(code);
}

static int end_call(void)
{
	if (files.error == 0)
		return 0;
	errno = files.error;
	return -1;
}

static gboolean can_change(void)
{
	return !files.disk.is_read_only || fail_call(EROFS);
}

static OpenFile *find_open(int fd)
{
	for (guint i = 0; i < files.open->len; i++) {
		OpenFile *file = files.open->pdata[i];

		if (file->fd == fd)
			return file;
	}
	world_fail("a system call on descriptor %d, which is not open", fd);
}

static OpenFile *open_file(Inode *inode, int flags)
{
	OpenFile *file = g_new0(OpenFile, 1);

	file->fd = files.next_fd++;
	file->flags = flags;
	file->inode = inode;
	file->process = files.process;
	disk_open(inode);
	g_ptr_array_add(files.open, file);
	return file;
}

static Inode *directory_at(int fd)
{
	return fd == AT_FDCWD ? disk_root() : find_open(fd)->inode;
}

/* Returns whether a name can be made or removed in @directory. */
static gboolean can_change_names(const Inode *directory)
{
	/* a directory that was removed */
	if (directory->n_links == 0)
		return fail_call(ENOENT);
	return can_change();
}

static gboolean may_open(const Inode *inode, int flags)
{
	gboolean writes = (flags & O_ACCMODE) != O_RDONLY;

	if ((flags & O_EXCL) != 0)
		return fail_call(EEXIST);
	if (S_ISLNK(inode->mode))
		return fail_call(ELOOP);
	if ((flags & O_DIRECTORY) != 0 && !S_ISDIR(inode->mode))
		return fail_call(ENOTDIR);
	if (writes && S_ISDIR(inode->mode))
		return fail_call(EISDIR);
	return !writes || can_change();
}

static int open_at(int directory_fd, const char *path, int flags, va_list *mode)
{
	Inode *directory, *inode;

	if (!begin_call(flags & O_CREAT ? "make" : "open", path))
		return -1;
	directory = directory_at(directory_fd);
	inode = disk_find(directory, path);
	if (inode == NULL) {
		if ((flags & O_CREAT) == 0 || errno != ENOENT || !can_change_names(directory))
			return -1;
		inode = disk_make(directory, path, S_IFREG | va_arg(*mode, mode_t));
	} else if (!may_open(inode, flags)) {
		return -1;
	}
	return open_file(inode, flags)->fd;
}

int __wrap_open64(const char *path, int flags, ...)
{
	va_list mode;
	int fd;

	va_start(mode, flags);
	fd = open_at(AT_FDCWD, path, flags, &mode);
	va_end(mode);
	return fd;
}

int __wrap_openat64(int directory_fd, const char *path, int flags, ...)
{
	va_list mode;
	int fd;

	va_start(mode, flags);
	fd = open_at(directory_fd, path, flags, &mode);
	va_end(mode);
	return fd;
}

int __real_close(int fd);
int __wrap_close(int fd)
{
	gboolean is_ok;
	int code;

	if (fd >= 0 && fd < FIRST_FD)
		return __real_close(fd);
	/* the memory of a killed process is freed: its descriptors are closed already */
	if (files.process == NULL)
		return 0;
	/* as on Linux, a close() that fails still closes the descriptor */
	is_ok = begin_call("close", "");
	code = errno;
	close_file(find_open(fd));
	errno = code;
	return is_ok ? end_call() : -1;
}

ssize_t __wrap_read(int fd, void *buffer, size_t size)
{
	OpenFile *file;
	gsize n;

	if (!begin_call("read", ""))
		return -1;
	file = find_open(fd);
	n = MIN(size, file->inode->data->len - MIN(file->offset, file->inode->data->len));
	if (n > 0)
		memcpy(buffer, file->inode->data->data + file->offset, n);
	file->offset += n;
	return (ssize_t)n;
}

static ssize_t write_at(int fd, const void *buffer, gsize size, gsize offset)
{
	Inode *inode;

	if (!begin_call("write", "") || !can_change())
		return -1;
	inode = find_open(fd)->inode;
	if (files.disk.is_full) {
		if (offset > 0 || size <= LAST_BYTES) {
			errno = ENOSPC;
			return -1;
		}
		size = LAST_BYTES;
	}
	if (inode->data->len < offset + size)
		g_byte_array_set_size(inode->data, (guint)(offset + size));
	memcpy(inode->data->data + offset, buffer, size);
	return end_call() == 0 ? (ssize_t)size : -1;
}

ssize_t __wrap_write(int fd, const void *buffer, size_t size)
{
	ssize_t n = write_at(fd, buffer, size, find_open(fd)->offset);

	if (n > 0)
		find_open(fd)->offset += (gsize)n;
	return n;
}

ssize_t __wrap_pwrite64(int fd, const void *buffer, size_t size, off_t offset)
{
	return write_at(fd, buffer, size, (gsize)offset);
}

int __wrap_ftruncate64(int fd, off_t length)
{
	if (!begin_call("truncate", "") || !can_change())
		return -1;
	g_byte_array_set_size(find_open(fd)->inode->data, (guint)length);
	return end_call();
}

int __wrap_fsync(int fd)
{
	if (!begin_call("sync", ""))
		return -1;
	if (files.disk.sync_us > 0) {
		files_wait_us(files.disk.sync_us);
		end_if_killed();
	}
	if (files.disk.sync_errno != 0) {
		errno = files.disk.sync_errno;
		return -1;
	}
	disk_sync(find_open(fd)->inode);
	return end_call();
}

int __wrap_flock(int fd, int operation)
{
	OpenFile *file;

	if (!begin_call(operation == LOCK_UN ? "unlock" : "lock", ""))
		return -1;
	file = find_open(fd);
	if (operation == LOCK_UN) {
		if (file->inode->locked_by == file)
			file->inode->locked_by = NULL;
		return 0;
	}
	g_assert_cmpint(operation, ==, LOCK_EX | LOCK_NB);
	if (file->inode->locked_by != NULL && file->inode->locked_by != file) {
		errno = EWOULDBLOCK;
		return -1;
	}
	file->inode->locked_by = file;
	return 0;
}

int __wrap_renameat(int from_fd, const char *from, int to_fd, const char *to)
{
	Inode *directory;

	g_assert_cmpint(from_fd, ==, to_fd);
	if (!begin_call("rename to", to))
		return -1;
	directory = directory_at(from_fd);
	if (disk_find(directory, from) == NULL || !can_change_names(directory))
		return -1;
	disk_rename(directory, from, to);
	return end_call();
}

int __wrap_unlinkat(int fd, const char *name, int flags G_GNUC_UNUSED)
{
	Inode *directory;

	if (!begin_call("remove", name))
		return -1;
	directory = directory_at(fd);
	if (disk_find(directory, name) == NULL || !can_change_names(directory))
		return -1;
	disk_remove(directory, name);
	return end_call();
}

int __wrap_mkdir(const char *path, mode_t mode)
{
	g_autofree char *parent = g_path_get_dirname(path);
	g_autofree char *name = g_path_get_basename(path);
	Inode *directory;
	gboolean can_make;

	if (!begin_call("make directory", path))
		return -1;
	directory = disk_find(disk_root(), parent);
	if (directory == NULL)
		return -1;
	can_make = disk_find(directory, name) == NULL ? can_change_names(directory)
						      : fail_call(EEXIST);
	if (!can_make)
		return -1;
	disk_make(directory, name, S_IFDIR | mode);
	return end_call();
}

static void fill_stat(const Inode *inode, struct stat *out_info)
{
	*out_info = (struct stat){
		.st_dev = 1,
		.st_ino = inode->number,
		.st_mode = inode->mode,
		.st_nlink = inode->n_links,
		.st_uid = inode->uid,
		.st_size = inode->data->len,
	};
}

int __wrap_fstat64(int fd, struct stat *out_info)
{
	if (files.process == NULL) /* the memory of a killed process is freed */
		return -1;
	if (!begin_call("stat", ""))
		return -1;
	fill_stat(find_open(fd)->inode, out_info);
	return 0;
}

int __wrap_fstatat64(int fd, const char *path, struct stat *out_info, int flags G_GNUC_UNUSED)
{
	const Inode *inode;

	if (!begin_call("stat", path))
		return -1;
	inode = disk_find(directory_at(fd), path);
	if (inode == NULL)
		return -1;
	fill_stat(inode, out_info);
	return 0;
}

gboolean __wrap_g_file_test(const char *path, GFileTest test)
{
	const Inode *inode;

	if (!begin_call("test", path))
		return FALSE;
	inode = disk_find(disk_root(), path);
	return inode != NULL && (test == G_FILE_TEST_EXISTS || S_ISLNK(inode->mode));
}

int __wrap_dirfd(DIR *directory)
{
	return ((Listing *)directory)->file->fd;
}

DIR *__wrap_fdopendir(int fd)
{
	Listing *listing;

	if (!begin_call("list", ""))
		return NULL;
	listing = g_new0(Listing, 1);
	listing->file = find_open(fd);
	return (DIR *)listing;
}

struct dirent *__wrap_readdir64(DIR *directory)
{
	Listing *listing = (Listing *)directory;
	const GPtrArray *entries;

	if (!begin_call("read name", ""))
		return NULL;
	entries = listing->file->inode->entries;
	if (listing->next >= entries->len)
		return NULL;
	g_strlcpy(listing->entry.d_name, ((DiskEntry *)entries->pdata[listing->next++])->name,
		  sizeof(listing->entry.d_name));
	return &listing->entry;
}

int __wrap_closedir(DIR *directory)
{
	Listing *listing = (Listing *)directory;
	int fd = listing->file->fd;

	g_free(listing);
	return __wrap_close(fd);
}

/* Other functions that depend on the process */

pid_t __real_getpid(void);
pid_t __wrap_getpid(void)
{
	return files.process != NULL ? files.process->pid : __real_getpid();
}

void __wrap_g_usleep(gulong us)
{
	files_wait_us((gint64)us);
	end_if_killed();
}

int __wrap_sd_id128_get_machine_app_specific(sd_id128_t application, sd_id128_t *out_id)
{
	if (files.process->machine_id == 0)
		return -ENOENT;
	application.bytes[0] = (guint8)files.process->machine_id;
	*out_id = application;
	return 0;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex G_GNUC_UNUSED)
{
	return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex G_GNUC_UNUSED)
{
	return 0;
}
