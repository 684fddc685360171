// Pipelines that were compiled before, in a file.
#pragma once

#import "object.h"
#import "pipeline.h"

@interface MTLBinaryArchiveDescriptor : SMObject <NSCopying> {
@public
    NSURL *url;  // nil: of a new archive
}
@end

@interface SMBinaryArchive : SMDeviceObject {
@private
    NSMutableSet *names;  // of what it has
}
+ (id)newWithDevice:(SMDevice *)owner descriptor:(MTLBinaryArchiveDescriptor *)given error:(NSError **)error;
- (BOOL)has:(SMFunction *)function;
@end
