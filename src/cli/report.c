#include "cli/cli.h"
#include "report/html.h"

#include <stdio.h>

haul_status haul_cli_report(const haul_cli *cli, haul_config *config) {
    const char *run = config->arguments.items[0];
    char inside[1024];
    (void)cli;
    snprintf(inside, sizeof inside, "%s/report.html", run);
    const char *path = config->output != NULL ? config->output : inside;
    HAUL_TRY(haul_report_write(run, path));
    printf("%s\n", path);
    return HAUL_OK;
}
