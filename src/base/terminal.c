#include "base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

bool haul_terminal_is(FILE *file) {
    return isatty(fileno(file)) == 1;
}

int haul_terminal_width(FILE *file) {
    struct winsize size;
    if (ioctl(fileno(file), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
        return 80;
    }
    return size.ws_col;
}

bool haul_terminal_colors(FILE *file, const char *no_color) {
    return (no_color == NULL || no_color[0] == '\0') && haul_terminal_is(file);
}

const char *haul_terminal_style(bool colors, haul_style style) {
    static const char *const sequences[HAUL_STYLES] = {
        [HAUL_STYLE_NONE] = "\033[0m",   [HAUL_STYLE_BOLD] = "\033[1m",
        [HAUL_STYLE_DIM] = "\033[2m",    [HAUL_STYLE_RED] = "\033[31m",
        [HAUL_STYLE_GREEN] = "\033[32m", [HAUL_STYLE_YELLOW] = "\033[33m",
    };
    return colors ? sequences[style] : "";
}
