#import "library.h"

#import "../support.h"
#import "accessors.h"
#import "data_type.h"
#import "device.h"
#import "library_file.h"
#import "report.h"

static id refuse(NSError **place, NSInteger code, char *text)
{
    NSString *message = text ? string_of(text) : @"there is no reason given";
    msl_free(text);
    return fail_with(place, code, message);
}

@implementation MTLCompileOptions

- (id)init
{
    self = [super init];
    fastMathEnabled = YES;
    mathMode = MTLMathModeFast;
    return self;
}

- (void)dealloc
{
    [preprocessorMacros release];
    [installName release];
    [super dealloc];
}

- (id)copyWithZone:(NSZone *)zone
{
    MTLCompileOptions *made = [MTLCompileOptions new];
    made->fastMathEnabled = fastMathEnabled;
    made->mathMode = mathMode;
    made->preserveInvariance = preserveInvariance;
    made->allowReferencingUndefinedSymbols = allowReferencingUndefinedSymbols;
    made->languageVersion = languageVersion;
    made->libraryType = libraryType;
    made->optimizationLevel = optimizationLevel;
    made->compileSymbolVisibility = compileSymbolVisibility;
    made->mathFloatingPointFunctions = mathFloatingPointFunctions;
    made->maxTotalThreadsPerThreadgroup = maxTotalThreadsPerThreadgroup;
    made->preprocessorMacros = [preprocessorMacros copy];
    made->installName = [installName copy];
    return made;
}

- (NSInteger)fastMathEnabled
{
    return fastMathEnabled;
}

- (void)setFastMathEnabled:(BOOL)flag
{
    fastMathEnabled = flag != 0;
    mathMode = flag ? MTLMathModeFast : MTLMathModeSafe;
    mathFloatingPointFunctions = flag ? MTLMathFloatingPointFunctionsFast : MTLMathFloatingPointFunctionsPrecise;
}

- (NSInteger)mathMode
{
    return mathMode;
}

- (void)setMathMode:(NSInteger)mode
{
    mathMode = mode;
    fastMathEnabled = mode == MTLMathModeFast;
}

FLAG(preserveInvariance, setPreserveInvariance)
FLAG(allowReferencingUndefinedSymbols, setAllowReferencingUndefinedSymbols)
NUMBER(languageVersion, setLanguageVersion)
NUMBER(libraryType, setLibraryType)
NUMBER(optimizationLevel, setOptimizationLevel)
NUMBER(compileSymbolVisibility, setCompileSymbolVisibility)
NUMBER(mathFloatingPointFunctions, setMathFloatingPointFunctions)
NUMBER(maxTotalThreadsPerThreadgroup, setMaxTotalThreadsPerThreadgroup)
OBJECT(NSDictionary, preprocessorMacros, setPreprocessorMacros, copy)
OBJECT(NSString, installName, setInstallName, copy)

@end

@implementation MTLFunctionConstantValues

- (id)init
{
    self = [super init];
    values = [NSMutableDictionary new];
    return self;
}

- (void)dealloc
{
    [values release];
    [super dealloc];
}

- (id)copyWithZone:(NSZone *)zone
{
    MTLFunctionConstantValues *made = [MTLFunctionConstantValues new];
    [made->values setDictionary:values];
    return made;
}

- (void)setConstantValue:(const void *)value type:(NSUInteger)type for:(id)key
{
    struct data_type known = data_type_of(type);
    if (!value || !known.lanes) {
        report(@"a value of the function constant %@ is %@", key,
               value ? [NSString stringWithFormat:@"of the type %lu, which is none", type] : @"not there");
        return;
    }
    NSData *bytes = [NSData dataWithBytes:value length:known.lanes * known.lane_bytes];
    [values setObject:[NSArray arrayWithObjects:[NSNumber numberWithUnsignedInteger:type], bytes, nil] forKey:key];
}

- (void)setConstantValue:(const void *)value type:(NSUInteger)type atIndex:(NSUInteger)index
{
    [self setConstantValue:value type:type for:[NSNumber numberWithUnsignedInteger:index]];
}

- (void)setConstantValue:(const void *)value type:(NSUInteger)type withName:(NSString *)name
{
    if (name)
        [self setConstantValue:value type:type for:[[name copy] autorelease]];
    else
        report(@"setConstantValue:type:withName: is given no name");
}

- (void)setConstantValues:(const void *)start type:(NSUInteger)type withRange:(NSRange)range
{
    struct data_type known = data_type_of(type);
    NSUInteger stride = (known.lanes == 3 ? 4 : known.lanes) * known.lane_bytes;
    for (NSUInteger i = 0; i < range.length; ++i)
        [self setConstantValue:start ? (const char *)start + i * stride : NULL type:type atIndex:range.location + i];
}

- (void)reset
{
    [values removeAllObjects];
}

@end

@implementation MTLFunctionConstant

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

- (NSUInteger)index
{
    return index;
}

- (NSInteger)required
{
    return YES;
}

@end

@implementation MTLFunctionDescriptor

+ (id)functionDescriptor
{
    return autoreleased([self new]);
}

- (void)dealloc
{
    [name release];
    [specializedName release];
    [constantValues release];
    [super dealloc];
}

- (id)copyWithZone:(NSZone *)zone
{
    MTLFunctionDescriptor *made = [MTLFunctionDescriptor new];
    made->name = [name copy];
    made->specializedName = [specializedName copy];
    made->constantValues = [constantValues copy];
    made->options = options;
    return made;
}

OBJECT(NSString, name, setName, copy)
OBJECT(NSString, specializedName, setSpecializedName, copy)
OBJECT(MTLFunctionConstantValues, constantValues, setConstantValues, copy)
NUMBER(options, setOptions)

@end

// 0x30001 is MSL 3.1, which the language calls 310.
static unsigned language_version(NSUInteger version)
{
    return (unsigned)(version >> 16) * 100 + (unsigned)(version & 0xFFFF) * 10;
}

static msl_library *compile(NSString *source, MTLCompileOptions *options, char **error)
{
    NSArray *names = [options->preprocessorMacros allKeys];
    NSUInteger count = [names count];
    const char *macro_names[count + 1], *macro_values[count + 1];
    for (NSUInteger i = 0; i < count; ++i) {
        macro_names[i] = [[names objectAtIndex:i] UTF8String];
        // A value may be a number.
        macro_values[i] = [[[options->preprocessorMacros objectForKey:[names objectAtIndex:i]] description] UTF8String];
    }
    msl_options given = {
        .language_version = language_version(options->languageVersion),
        .math_mode = (int)options->mathMode,
        .macro_count = (unsigned)count,
        .macro_names = macro_names,
        .macro_values = macro_values,
    };
    return msl_compile([source UTF8String], &given, error);
}

@implementation SMLibrary

+ (id)newWithDevice:(SMDevice *)owner
             source:(NSString *)source
            options:(MTLCompileOptions *)options
              error:(NSError **)place
{
    if (!source) return fail_with(place, MTLLibraryErrorUnsupported, @"there is no text to compile");
    if (options && ![MTLCompileOptions check:options])
        return fail_with(place, MTLLibraryErrorUnsupported, @"the options are no MTLCompileOptions");
    NSAutoreleasePool *pool = [NSAutoreleasePool new];
    MTLCompileOptions *used = options ? [options copy] : [MTLCompileOptions new];
    char *error = NULL;
    msl_library *made = compile(source, used, &error);
    SMLibrary *library = nil;
    if (made) {
        library = [[SMLibrary alloc] initWithDevice:owner library:made];
        library->installName = [used->installName copy];
        library->type = used->libraryType;
    }
    [used release];
    [pool release];
    return library ? library : refuse(place, MTLLibraryErrorCompileFailure, error);
}

+ (id)newWithDevice:(SMDevice *)owner data:(NSData *)data error:(NSError **)place
{
    if (![data isKindOfClass:[NSData class]])
        return fail_with(place, MTLLibraryErrorUnsupported, @"there is no data to make a library of");
    char *error = NULL;
    msl_library *made = library_of_data(data, &error);
    return made ? [[SMLibrary alloc] initWithDevice:owner library:made] : refuse(place, MTLLibraryErrorInternal, error);
}

+ (id)newWithDevice:(SMDevice *)owner path:(NSString *)path error:(NSError **)place
{
    NSAutoreleasePool *pool = [NSAutoreleasePool new];
    NSData *data = path ? [[NSData alloc] initWithContentsOfFile:path] : nil;
    [pool release];
    if (!data) {
        NSString *text = [NSString stringWithFormat:@"there is no library at %@ that can be read", path];
        return fail_with(place, MTLLibraryErrorFileNotFound, text);
    }
    SMLibrary *made = [self newWithDevice:owner data:data error:place];
    [data release];
    return made;
}

- (id)initWithDevice:(SMDevice *)owner library:(msl_library *)made
{
    self = [super initWithDevice:owner];
    library = made;
    return self;
}

- (void)dealloc
{
    msl_release(library);
    [installName release];
    [super dealloc];
}

- (NSString *)installName
{
    return given(installName);
}

- (NSUInteger)type
{
    return type;
}

- (NSArray *)functionNames
{
    unsigned count = msl_function_count(library);
    NSMutableArray *names = [NSMutableArray new];
    for (unsigned i = 0; i < count; ++i) [names addObject:string_of(msl_function_name(msl_function_at(library, i)))];
    return autoreleased(names);
}

- (NSData *)libraryDataContents
{
    return autoreleased(new_data_of_library(library));
}

// A function of a library that becomes its own.
- (id)newFunctionNamed:(NSString *)name in:(msl_library *)owned error:(NSError **)place
{
    const msl_function *found = name ? msl_function_named(owned, [name UTF8String]) : NULL;
    if (found) return [[SMFunction alloc] initWithDevice:device library:owned function:found];
    msl_release(owned);
    NSString *text = [NSString stringWithFormat:@"there is no function '%@' in the library, but %@", name,
                                                [[self functionNames] componentsJoinedByString:@", "]];
    return fail_with(place, MTLLibraryErrorFunctionNotFound, text);
}

- (id)newFunctionWithName:(NSString *)name
{
    msl_retain(library);
    return [self newFunctionNamed:name in:library error:NULL];
}

- (id)newFunctionWithName:(NSString *)name
           constantValues:(MTLFunctionConstantValues *)values
                    error:(NSError **)place
{
    if (![MTLFunctionConstantValues check:values])
        return fail_with(place, MTLLibraryErrorUnsupported, @"there are no MTLFunctionConstantValues");
    if (!msl_function_named(library, name ? [name UTF8String] : "")) {
        msl_retain(library);
        return [self newFunctionNamed:name in:library error:place];
    }
    NSArray *keys = [values->values allKeys];
    msl_constant_value given[[keys count] + 1];
    for (NSUInteger i = 0; i < [keys count]; ++i) {
        id key = [keys objectAtIndex:i];
        NSArray *value = [values->values objectForKey:key];
        struct data_type known = data_type_of([[value objectAtIndex:0] unsignedIntegerValue]);
        BOOL named = [key isKindOfClass:[NSString class]];
        given[i] = (msl_constant_value){
            .name = named ? [key UTF8String] : NULL,
            .index = named ? 0 : [key unsignedIntValue],
            .kind = known.kind,
            .lanes = known.lanes,
            .bytes = [[value objectAtIndex:1] bytes],
        };
    }
    char *error = NULL;
    msl_library *made = msl_specialize(library, given, (unsigned)[keys count], &error);
    return made ? [self newFunctionNamed:name in:made error:place]
                : refuse(place, MTLLibraryErrorCompileFailure, error);
}

- (id)newFunctionWithDescriptor:(MTLFunctionDescriptor *)descriptor error:(NSError **)place
{
    if (![MTLFunctionDescriptor check:descriptor])
        return fail_with(place, MTLLibraryErrorUnsupported, @"there is no MTLFunctionDescriptor");
    if (descriptor->constantValues)
        return [self newFunctionWithName:descriptor->name constantValues:descriptor->constantValues error:place];
    msl_retain(library);
    return [self newFunctionNamed:descriptor->name in:library error:place];
}

@end

@implementation SMFunction

- (id)initWithDevice:(SMDevice *)owner library:(msl_library *)owned function:(const msl_function *)found
{
    self = [super initWithDevice:owner];
    library = owned;
    function = found;
    return self;
}

- (void)dealloc
{
    msl_release(library);
    [super dealloc];
}

- (const msl_function *)function
{
    return function;
}

- (NSString *)name
{
    return string_of(msl_function_name(function));
}

- (NSString *)fingerprint
{
    unsigned long count;
    const unsigned char *bytes = msl_library_bytes(library, &count);
    uint64_t hash = 0xcbf29ce484222325;
    for (unsigned long i = 0; i < count; ++i) hash = (hash ^ bytes[i]) * 0x100000001b3;
    return [NSString stringWithFormat:@"%016lx %s", hash, msl_function_name(function)];
}

- (NSUInteger)functionType
{
    return MTLFunctionTypeKernel;
}

- (NSUInteger)options
{
    return 0;
}

- (NSDictionary *)functionConstantsDictionary
{
    NSMutableDictionary *made = [NSMutableDictionary new];
    unsigned count = msl_constant_count(library);
    for (unsigned i = 0; i < count; ++i) {
        msl_constant one = msl_constant_at(library, i);
        MTLFunctionConstant *constant = [MTLFunctionConstant new];
        constant->name = [string_of(one.name) copy];
        constant->type = data_type_named(one.type);
        constant->index = one.index;
        [made setObject:constant forKey:constant->name];
        [constant release];
    }
    return autoreleased(made);
}

@end
