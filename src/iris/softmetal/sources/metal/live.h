// Which objects live: a pointer that a client gives may be anything.
#pragma once

#import <objc/objc.h>

void live_add(void *object, Class class);
// The one that was removed longest ago is returned, once there are many: it need no longer be kept.
id live_remove(void *object);
// Nil, if no such object lives.
Class live_class(void *object);
unsigned long live_count(void);
// Of all that live; to be freed.
Class *live_classes(unsigned long *count);
