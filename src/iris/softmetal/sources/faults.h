// Faults on order: the nth call of a method fails.
#pragma once

#import <objc/objc.h>

// How a message is to fail, if that is ordered and its turn has come; else null.
IMP ordered_fault(id receiver, SEL selector);
// The same of a function, by its name.
int ordered_fault_of(const char *name);
