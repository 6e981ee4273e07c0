#include "json.h"

#include "bx.h"

#include <stdlib.h>
#include <string.h>

static bool has_items(const bx_json *json) { return json->kind == '{' || json->kind == '['; }

/* Frees what a value holds, not its name. */
static void empty(bx_json *json)
{
    if (!has_items(json))
        free(json->text);
    else
        for (bx_json *item; (item = json->first); bx_json_free(item)) json->first = item->next;
    json->first = json->last = NULL;
}

void bx_json_free(bx_json *json)
{
    if (json) empty(json);
    if (json) free(json->name);
    free(json);
}

bx_json *bx_json_get(const bx_json *object, const char *name)
{
    bx_json *item = object && name && object->kind == '{' ? object->first : NULL;
    while (item && strcmp(item->name, name) != 0) item = item->next;
    return item;
}

bx_json *bx_json_create(void)
{
    bx_json *json = bx_memory_alloc(1, sizeof *json);
    json->kind = '{';
    return json;
}

static bx_json *add(bx_json *parent, const char *name, char kind)
{
    if (!parent) return NULL;
    bx_json *item = bx_json_get(parent, name);
    if (item) {
        empty(item);
    } else {
        item = bx_json_create();
        if (name) item->name = bx_memory_copy_text(name);
        *(parent->last ? &parent->last->next : &parent->first) = item;
        parent->last = item;
    }
    item->kind = kind;
    return item;
}

bx_json *bx_json_object(bx_json *parent, const char *name) { return add(parent, name, '{'); }
bx_json *bx_json_array(bx_json *parent, const char *name) { return add(parent, name, '['); }

void bx_json_raw(bx_json *parent, const char *name, const char *text)
{
    bx_json *item = add(parent, name, '\0');
    if (item) item->text = bx_memory_copy_text(text);
}

void bx_json_text(bx_json *parent, const char *name, const char *text)
{
    bx_json *item = add(parent, name, text ? '"' : '\0');
    if (item) item->text = bx_memory_copy_text(text ? text : "null");
}

void bx_json_bool(bx_json *parent, const char *name, bool value)
{
    bx_json_raw(parent, name, value ? "true" : "false");
}

enum { NUMBER_TEXT = 32 };

static void number_text(char text[NUMBER_TEXT], double value)
{
    strcpy(text, "null");
    if (isfinite(value) && snprintf(text, NUMBER_TEXT, "%.15g", value) > 0 &&
        strtod(text, NULL) != value)
        snprintf(text, NUMBER_TEXT, "%.17g", value);
}

void bx_json_number(bx_json *parent, const char *name, double value)
{
    char text[NUMBER_TEXT];
    number_text(text, value);
    bx_json_raw(parent, name, text);
}

/* As one text, which is short however many numbers there are. */
void bx_json_list(bx_json *parent, const char *name, size_t count, const double *values)
{
    char *list, text[NUMBER_TEXT];
    size_t length;
    FILE *file = open_memstream(&list, &length);
    for (size_t i = 0; i < count; i++) {
        number_text(text, values[i]);
        fprintf(file, "%c%s", i ? ',' : '[', text);
    }
    fputs(count ? "]" : "[]", file);
    fclose(file);
    bx_json_raw(parent, name, list);
    free(list);
}

void bx_json_numbers(bx_json *object, size_t count, const bx_number *numbers)
{
    for (size_t i = 0; i < count; i++) bx_json_number(object, numbers[i].name, numbers[i].value);
}

void bx_json_texts(bx_json *object, size_t count, const bx_text *texts)
{
    for (size_t i = 0; i < count; i++) bx_json_text(object, texts[i].name, texts[i].value);
}

size_t bx_json_character(const char *text)
{
    static const uint32_t least[] = {1, 0x80, 0x800, 0x10000}; /* by the bytes that follow */
    const unsigned char *c = (const unsigned char *)text;
    size_t more = *c < 0x80 ? 0 : *c < 0xe0 ? 1 : *c < 0xf0 ? 2 : 3;
    if ((*c >= 0x80 && *c < 0xc0) || *c >= 0xf8) return 0; /* begins none */
    uint32_t character = more ? *c & (0x3fu >> more) : *c;
    for (size_t i = 1; i <= more; i++) {
        if ((c[i] & 0xc0) != 0x80) return 0;
        character = character << 6 | (c[i] & 0x3f);
    }
    bool is_surrogate = character >= 0xd800 && character <= 0xdfff;
    return character < least[more] || character > 0x10ffff || is_surrogate ? 0 : more + 1;
}

/* What is no UTF-8, as a host's name may be or a text that was cut, becomes U+FFFD. */
static void write_text(FILE *file, const char *text)
{
    putc('"', file);
    for (size_t bytes; *text; text += bytes ? bytes : 1) {
        bytes = bx_json_character(text);
        if (bytes == 0 || (unsigned char)*text < ' ') {
            fprintf(file, "\\u%04x", bytes ? *text : 0xfffd);
            continue;
        }
        if (*text == '"' || *text == '\\') putc('\\', file);
        fwrite(text, 1, bytes, file);
    }
    putc('"', file);
}

void bx_json_write(FILE *file, const bx_json *json, int lines)
{
    bool object = json->kind == '{';
    if (json->kind == '"') write_text(file, json->text);
    if (json->kind == '\0') fputs(json->text, file);
    if (!has_items(json)) return;
    putc(json->kind, file);
    for (const bx_json *item = json->first; item; item = item->next) {
        if (item != json->first) putc(',', file);
        if (object && lines > 0) putc('\n', file);
        if (object) write_text(file, item->name);
        if (object) putc(':', file);
        bx_json_write(file, item, lines - 1);
    }
    putc(object ? '}' : ']', file);
}

char *bx_json_take_text(bx_json *json)
{
    char *text;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    bx_json_write(file, json, 0);
    fclose(file);
    bx_json_free(json);
    return text;
}
