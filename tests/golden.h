/* golden.h -- compares text with a stored file; ZI_GOLDEN=rewrite stores it instead. */
#ifndef ZI_GOLDEN_H
#define ZI_GOLDEN_H

/* `name` lies under tests/golden/.  On a difference the test fails and shows the first line
 * that differs. */
#define t_golden(name, text) t_golden_((name), (text), __FILE__, __LINE__)

void t_golden_(const char *name, const char *text, const char *file, int line);

#endif /* ZI_GOLDEN_H */
