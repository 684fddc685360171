// What a pipeline's kernel takes.
#pragma once

#include "../msl/msl.h"
#include "metal.h"
#import "object.h"

@interface SMReflection : SMObject {
@private
    NSArray *bindings;
}
+ (id)newOfFunction:(const msl_function *)function;
@end
