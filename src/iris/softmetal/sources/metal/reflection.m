#import "reflection.h"

#import "../support.h"

// An argument that is a buffer or threadgroup memory, by both of its interfaces.
@interface SMBinding : SMObject {
@public
    NSString *name;
    NSUInteger type, access, index, alignment, bytes, dataType;
    NSInteger used;
}
@end

@implementation SMBinding

- (void)dealloc
{
    [name release];
    [super dealloc];
}

- (NSString *)name
{
    return given(name);
}

- (NSUInteger)type
{
    return type;
}

- (NSUInteger)access
{
    return access;
}

- (NSUInteger)index
{
    return index;
}

- (NSInteger)isUsed
{
    return used;
}

- (NSInteger)isArgument
{
    return YES;
}

- (NSUInteger)bufferAlignment
{
    return alignment;
}

- (NSUInteger)bufferDataSize
{
    return bytes;
}

- (NSUInteger)bufferDataType
{
    return dataType;
}

- (NSUInteger)threadgroupMemoryAlignment
{
    return alignment;
}

- (NSUInteger)threadgroupMemoryDataSize
{
    return bytes;
}

@end

@implementation SMReflection

+ (id)newOfFunction:(const msl_function *)function
{
    SMReflection *made = [self new];
    NSMutableArray *all = [NSMutableArray new];
    for (unsigned i = 0; i < msl_function_argument_count(function); ++i) {
        msl_argument one = msl_function_argument(function, i);
        if (one.kind == msl_value) continue;
        SMBinding *binding = [SMBinding new];
        binding->name = [string_of(one.name) copy];
        binding->type = one.kind == msl_buffer ? MTLBindingTypeBuffer : MTLBindingTypeThreadgroupMemory;
        binding->access = one.read_only ? MTLBindingAccessReadOnly : MTLBindingAccessReadWrite;
        binding->index = one.index;
        binding->alignment = one.alignment;
        binding->bytes = one.element_bytes;
        binding->dataType = one.data_type;
        binding->used = one.active;
        [all addObject:binding];
        [binding release];
    }
    made->bindings = all;
    return made;
}

- (void)dealloc
{
    [bindings release];
    [super dealloc];
}

- (NSArray *)bindings
{
    return given(bindings);
}

@end
