// SPDX-License-Identifier: Apache-2.0
// Prints the C library that this process runs on, as the kernel mapped it.
#include <stdio.h>
#include <string.h>

int main(void) {
	char line[4096];
	FILE *maps = fopen("/proc/self/maps", "r");
	if (maps == NULL) {
		perror("/proc/self/maps");
		return 1;
	}
	while (fgets(line, sizeof line, maps) != NULL) {
		char *path = strchr(line, '/');
		if (path != NULL && strstr(path, "/ld-") != NULL) {
			fputs(path, stdout);
			return 0;
		}
	}
	fputs("linked statically\n", stderr);
	return 1;
}
