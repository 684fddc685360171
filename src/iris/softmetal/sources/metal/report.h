// Misuse that there is no command buffer to blame for.
#pragma once

#import <Foundation/Foundation.h>

// Says so on standard error, and to who asks for the reports.
void report(NSString *text, ...) __attribute__((format(NSString, 1, 2)));
void report_unknown_message(id receiver, SEL selector);

// The text until this thread calls it again.
const char *lasting_text(NSString *text);
